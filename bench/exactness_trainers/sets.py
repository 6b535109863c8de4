"""Sets, whose order after a load matters to training that goes through them."""

from __future__ import annotations

from exactness_trainers.base import Plain
from exactness_trainers.containers import Key


class _Set(Plain):
    cause = "sets"


class SetOfInts(_Set):
    """A set of numbers; what pop() returns depends on its order."""

    def start(self) -> None:
        self.numbers = {5, 17, 33, 2}

    def amount(self) -> float:
        least = min(self.numbers)
        self.numbers.discard(least)
        self.numbers.add(least + 8)
        return sum(self.numbers) % 13


class SetPopped(_Set):
    """A set that is popped from, in the order that it has."""

    expect = "either"
    named = "numbers"

    def start(self) -> None:
        self.numbers = {17, 1, 9, 25, 33, 2}

    def amount(self) -> float:
        number = self.numbers.pop()
        self.numbers.add(number + 16)
        return number / 4


class SetOrderAfterDeletions(_Set):
    """A set gone through in order, after many additions and deletions."""

    expect = "either"
    named = "numbers"

    def start(self) -> None:
        self.numbers = {number * 37 % 101 for number in range(60)}
        self.count = 0

    def amount(self) -> float:
        self.count += 1
        for number in list(self.numbers)[::3]:
            self.numbers.discard(number)
        self.numbers |= {self.count * 64, self.count * 128 + 1}
        return sum(place * number for place, number in enumerate(self.numbers)) / 500


class SetOfStrings(_Set):
    """A set of strings gone through in order."""

    expect = "either"
    named = "names"

    def start(self) -> None:
        self.names = {f"name {number}" for number in range(20)}

    def amount(self) -> float:
        first = next(iter(self.names))
        self.names.remove(first)
        self.names.add(first + "!")
        return sum(place * len(name) for place, name in enumerate(self.names)) / 300


class SetOfTuples(_Set):
    """A set of tuples that is added to; only what is in it counts."""

    def start(self) -> None:
        self.places = {(0, 0)}

    def amount(self) -> float:
        x, y = max(self.places)
        self.places |= {(x + 1, y), (x, y + 2), (0, 0)}
        return sum(x + y for x, y in self.places)


class SetOfObjects(_Set):
    """A set of objects with their own hash, one of which is also on self."""

    def start(self) -> None:
        self.key = Key()
        self.keys = {self.key}

    def amount(self) -> float:
        self.keys.add(Key())
        return len(self.keys) + (self.key in self.keys)


class FrozensetRebound(_Set):
    """A frozenset that is replaced, and kept as a dict's key."""

    def start(self) -> None:
        self.seen: frozenset[int] = frozenset()
        self.counts: dict[frozenset[int], int] = {}

    def amount(self) -> float:
        self.seen |= {len(self.seen) % 4}
        self.counts[self.seen] = self.counts.get(self.seen, 0) + 2
        return self.counts[self.seen] + len(self.counts)
