"""State in functions: closure cells, partials, bound methods, attributes and defaults of functions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from exactness_trainers.base import Plain
from exactness_trainers.nested import Counter


class _Closure(Plain):
    cause = "closures"


def counting() -> Callable[[], int]:
    count = 0

    def following() -> int:
        nonlocal count
        count += 1
        return count

    return following


def counted(function: Callable[..., float]) -> Callable[..., float]:
    calls = 0

    @functools.wraps(function)
    def wrapper(*arguments: Any) -> float:
        nonlocal calls
        calls += 1
        return calls * function(*arguments)

    return wrapper


def scaled(factor: list[float], number: float) -> float:
    factor[0] += number
    return factor[0]


class NonlocalCounter(_Closure):
    """A function that counts in a closure cell."""

    def start(self) -> None:
        self.following = counting()

    def amount(self) -> float:
        return self.following()


class TwoSharingACell(_Closure):
    """Two functions over the same closure cell."""

    def start(self) -> None:
        count = 0

        def add(number: int) -> None:
            nonlocal count
            count += number

        def read() -> int:
            return count

        self.add, self.read = add, read

    def amount(self) -> float:
        self.add(3)
        return self.read()


class ClosureOverObject(_Closure):
    """A closure over an object that is on self too."""

    def start(self) -> None:
        counter = Counter()
        self.counter = counter
        self.read = lambda: counter.count

    def amount(self) -> float:
        self.counter.next()
        return self.read()


class ClosureOverSelf(_Closure):
    """A lambda over the trainer itself."""

    def start(self) -> None:
        self.count = 0
        self.read = lambda: self.count + 1

    def amount(self) -> float:
        self.count = self.read() * 2
        return self.count


class LambdaRebound(_Closure):
    """A new lambda in every step, over the one before it."""

    def start(self) -> None:
        self.chain: Callable[[float], float] = lambda number: number

    def amount(self) -> float:
        before = self.chain
        self.chain = lambda number: before(number) + 1
        return self.chain(0.5)


class RecursiveClosure(_Closure):
    """A local function that calls itself, with a memory of its own."""

    def start(self) -> None:
        memory = {0: 1, 1: 1}

        def fibonacci(number: int) -> int:
            if number not in memory:
                memory[number] = fibonacci(number - 1) + fibonacci(number - 2)
            return memory[number]

        self.fibonacci, self.memory, self.count = fibonacci, memory, 0

    def amount(self) -> float:
        self.count += 1
        self.memory[self.count] += 1 if self.count < 2 else 0
        return self.fibonacci(self.count + 1) + len(self.memory)


class PartialWithState(_Closure):
    """A functools.partial with an argument that changes."""

    def start(self) -> None:
        self.scale = functools.partial(scaled, [1.0])

    def amount(self) -> float:
        return self.scale(0.5)


class BoundMethodOfSelf(_Closure):
    """A bound method of the trainer as an attribute, and another one from step 3 on."""

    def start(self) -> None:
        self.count = 0
        self.rule = self.slow

    def slow(self) -> int:
        self.count += 1
        if self.count == 3:
            self.rule = self.fast
        return self.count

    def fast(self) -> int:
        self.count += 5
        return self.count

    def amount(self) -> float:
        return self.rule()


class BoundMethodOfOther(_Closure):
    """A bound method of an object that is nowhere else on self."""

    def start(self) -> None:
        self.following = Counter().next

    def amount(self) -> float:
        return self.following()


class BoundBuiltin(_Closure):
    """A list's append, beside the list."""

    def start(self) -> None:
        self.numbers = [1]
        self.add = self.numbers.append

    def amount(self) -> float:
        self.add(len(self.numbers))
        return sum(self.numbers)


class DecoratedFunction(_Closure):
    """A local function whose decorator counts its calls."""

    def start(self) -> None:
        self.function = counted(lambda number: number + 1)

    def amount(self) -> float:
        return self.function(1.0)


class FunctionWithAttribute(_Closure):
    """A local function that counts in an attribute of its own."""

    expect = "either"
    named = "function"

    def start(self) -> None:
        def function() -> int:
            function.calls += 1  # type: ignore[attr-defined]
            return function.calls  # type: ignore[attr-defined]

        function.calls = 0  # type: ignore[attr-defined]
        self.function = function

    def amount(self) -> float:
        return self.function()


class LocalMutableDefault(_Closure):
    """A local function that counts in a default argument."""

    expect = "either"
    named = "function"

    def start(self) -> None:
        def function(seen: list[int] = []) -> int:  # noqa: B006
            seen.append(len(seen))
            return sum(seen) + 1

        self.function = function

    def amount(self) -> float:
        return self.function()


class LocalCache(_Closure):
    """A local function with an lru_cache, whose results are lists that training changes."""

    expect = "either"
    named = "function"

    def start(self) -> None:
        self.function = functools.lru_cache(lambda number: [number])

    def amount(self) -> float:
        self.function(1).append(1)
        return sum(self.function(1))


class CachedProperty(_Closure):
    """A cached property that is a list, which training changes."""

    @functools.cached_property
    def numbers(self) -> list[int]:
        return [0]

    def amount(self) -> float:
        self.numbers.append(len(self.numbers))
        return sum(self.numbers)


class OperatorObjects(_Closure):
    """An itemgetter and a methodcaller that are replaced."""

    def start(self) -> None:
        self.pick, self.call, self.at = operator.itemgetter(0), operator.methodcaller("index", 1), 0

    def amount(self) -> float:
        numbers = [1, 2, 4, 8, 16, 32, 64]
        self.at += 1
        self.pick = operator.itemgetter(numbers.index(self.pick(numbers)) + 1)
        self.call = operator.methodcaller("index", self.pick(numbers))
        return self.pick(numbers) + self.call(numbers)


class FunctionTable(_Closure):
    """A dict of functions, module's and local ones, that changes places."""

    def start(self) -> None:
        first, second = counting(), counting()
        self.table = {"a": first, "b": second}

    def amount(self) -> float:
        self.table = {"a": self.table["b"], "b": self.table["a"]}
        return 3 * self.table["a"]() + self.table["a"]()


class CallableObject(_Closure):
    """An object with __call__, in a closure."""

    def start(self) -> None:
        class Calls:
            count = 0

            def __call__(self) -> int:
                self.count += 2
                return self.count

        calls = Calls()
        self.call = lambda: calls()

    expect = "either"
    named = "call"

    def amount(self) -> float:
        return self.call()
