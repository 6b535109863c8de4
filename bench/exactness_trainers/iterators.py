"""Live iterators on self: the place that they are at is state."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator
from typing import Any

from exactness_trainers.base import Plain


class _Iterator(Plain):
    cause = "live iterators"

    def start(self) -> None:
        self.iterator: Iterator[Any] = self.made()

    def made(self) -> Iterator[Any]:
        raise NotImplementedError

    def amount(self) -> float:
        return float(next(self.iterator)) ** 2


def numbers() -> Iterator[int]:
    yield from range(1, 100)


class ListIterator(_Iterator):
    """An iterator over a list that is nowhere else."""

    def made(self) -> Iterator[int]:
        return iter([3, 1, 4, 1, 5, 9, 2, 6])


class ListIteratorWhileGrowing(_Iterator):
    """An iterator over a list on self that grows while it is gone through."""

    def made(self) -> Iterator[int]:
        self.list = [1]
        return iter(self.list)

    def amount(self) -> float:
        number = next(self.iterator)
        self.list.append(2 * number + 1)
        return number


class DictIterator(_Iterator):
    """An iterator over a dict's keys."""

    def made(self) -> Iterator[int]:
        return iter({number * 7 % 11: None for number in range(1, 9)})


class DictItemsIterator(_Iterator):
    """An iterator over a dict's items."""

    def made(self) -> Iterator[tuple[int, int]]:
        return iter({number: number**2 for number in range(1, 9)}.items())

    def amount(self) -> float:
        key, value = next(self.iterator)
        return key + value


class SetIterator(_Iterator):
    """An iterator over a set."""

    expect = "either"
    named = "iterator"

    def made(self) -> Iterator[int]:
        return iter({number * 37 % 101 for number in range(1, 20)})


class TupleAndStringIterators(_Iterator):
    """Iterators over a tuple, a string, bytes and a range at once."""

    def made(self) -> Iterator[int]:
        self.others = [iter("abcdefgh"), iter(b"abcdefgh"), iter(range(0, 80, 10))]
        return iter((1, 2, 4, 8, 16, 32, 64, 128))

    def amount(self) -> float:
        letter, byte, number = (next(iterator) for iterator in self.others)
        return next(self.iterator) + ord(letter) + byte + number


class Reversed(_Iterator):
    """reversed() of a list."""

    def made(self) -> Iterator[int]:
        return reversed([3, 1, 4, 1, 5, 9, 2, 6])


class Enumerated(_Iterator):
    """enumerate() over a list."""

    def made(self) -> Iterator[tuple[int, int]]:
        return enumerate([3, 1, 4, 1, 5, 9, 2, 6], start=2)

    def amount(self) -> float:
        place, number = next(self.iterator)
        return place * number


class Zipped(_Iterator):
    """zip() of a list and a count."""

    def made(self) -> Iterator[tuple[int, int]]:
        return zip([3, 1, 4, 1, 5, 9, 2, 6], itertools.count(5), strict=False)

    def amount(self) -> float:
        one, other = next(self.iterator)
        return one * other


class Mapped(_Iterator):
    """map() of a partial over a filter() of a list."""

    expect = "either"
    named = "iterator"

    def made(self) -> Iterator[int]:
        return map(functools.partial(operator.mul, 2), filter(None, [3, 0, 1, 4, 0, 1, 5, 9, 2, 6]))


class Counted(_Iterator):
    """itertools.count()."""

    def made(self) -> Iterator[int]:
        return itertools.count(3, 2)


class Cycled(_Iterator):
    """itertools.cycle() that has come round once by step 4."""

    def made(self) -> Iterator[int]:
        return itertools.cycle([1, 5, 2])


class Chained(_Iterator):
    """itertools.chain() of two lists, over whose seam training goes."""

    def made(self) -> Iterator[int]:
        return itertools.chain([1, 5, 2], [7, 4, 9])


class Sliced(_Iterator):
    """itertools.islice() of a count."""

    def made(self) -> Iterator[int]:
        return itertools.islice(itertools.count(2), 1, 50, 3)


class Combined(_Iterator):
    """product() and permutations()."""

    def made(self) -> Iterator[Any]:
        return zip(itertools.product([1, 2, 3], [5, 7]), itertools.permutations([1, 2, 3]), strict=False)

    def amount(self) -> float:
        (one, other), (first, _, last) = next(self.iterator)
        return one * other + first - last


class Teed(_Iterator):
    """Both ends of itertools.tee(), at different places."""

    expect = "either"
    named = "iterator"

    def made(self) -> Iterator[int]:
        iterator, self.ahead = itertools.tee(iter([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]))
        next(self.ahead)
        return iterator

    def amount(self) -> float:
        return next(self.iterator) - 2 * next(self.ahead)


class UntilSentinel(_Iterator):
    """iter() of a bound method and a sentinel."""

    expect = "either"
    named = "iterator"

    def made(self) -> Iterator[int]:
        self.stack = [6, 2, 9, 5, 1, 4, 1, 3]
        return iter(self.stack.pop, 0)


class Stepping:
    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Stepping:
        return self

    def __next__(self) -> int:
        self.at += 1
        return self.at


class OwnIterator(_Iterator):
    """An iterator object of one's own class."""

    def made(self) -> Iterator[int]:
        return iter(Stepping())


class GeneratorObject(_Iterator):
    """A generator, which cannot be saved."""

    expect = "named"
    named = "iterator"

    def made(self) -> Iterator[int]:
        return numbers()


class GeneratorExpression(_Iterator):
    """A generator expression inside an object in a dict."""

    expect = "named"
    named = "holder"

    def made(self) -> Iterator[int]:
        self.holder = {"squares": (number**2 for number in range(1, 100))}
        return iter(())

    def amount(self) -> float:
        return next(self.holder["squares"])


class GeneratorInClosure(_Iterator):
    """A generator in a function's closure cell."""

    expect = "named"
    named = "draw"

    def made(self) -> Iterator[int]:
        source = numbers()
        self.draw = lambda: next(source)
        return iter(())

    def amount(self) -> float:
        return self.draw()
