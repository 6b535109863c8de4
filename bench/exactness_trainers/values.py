"""Values of the standard library, classes and functions' kin, compared by what they are and by identity."""

from __future__ import annotations

import copy
import enum
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar

from exactness_trainers.base import Plain


class _Value(Plain):
    cause = "values and classes"


class Mode(enum.Enum):
    LOW = 1
    HIGH = 2
    FULL = 5


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


MISSING = object()


class EnumMember(_Value):
    """An enum member, compared by identity."""

    def start(self) -> None:
        self.mode = Mode.LOW

    def amount(self) -> float:
        after = {Mode.LOW: Mode.HIGH, Mode.HIGH: Mode.FULL, Mode.FULL: Mode.LOW}
        self.mode = after[self.mode]
        return self.mode.value + 3 * (self.mode is Mode.HIGH)


class EnumFlags(_Value):
    """A combination of flags that changes."""

    def start(self) -> None:
        self.flags = Flags.A

    def amount(self) -> float:
        self.flags = Flags(self.flags.value % 3 + 1)
        return self.flags.value + 4 * (Flags.A in self.flags)


class DecimalState(_Value):
    """A Decimal with many digits."""

    def start(self) -> None:
        self.exact = Decimal("1.0000000000000000001")

    def amount(self) -> float:
        self.exact *= Decimal("1.3")
        return float(self.exact)


class FractionState(_Value):
    """A Fraction."""

    def start(self) -> None:
        self.exact = Fraction(1, 3)

    def amount(self) -> float:
        self.exact += Fraction(2, 7)
        return float(self.exact)


class DateState(_Value):
    """A date and a time span."""

    def start(self) -> None:
        self.day, self.span = date(2024, 2, 27), timedelta(days=1)

    def amount(self) -> float:
        self.day += self.span
        self.span += timedelta(hours=20)
        return self.day.toordinal() % 50


class PathState(_Value):
    """A path that grows."""

    def start(self) -> None:
        self.path = PurePosixPath("a")

    def amount(self) -> float:
        self.path = self.path / "b"
        return len(self.path.parts)


class ExceptionKept(_Value):
    """An exception that was caught in training, without its traceback."""

    def start(self) -> None:
        self.error = ValueError(0)

    def amount(self) -> float:
        self.error = ValueError(self.error.args[0] + 1)
        return self.error.args[0]


class ExceptionWithTraceback(_Value):
    """An exception that was caught in training, with its traceback."""

    expect = "either"
    named = "error"

    def start(self) -> None:
        self.error: Exception = ValueError(0)

    def amount(self) -> float:
        try:
            raise ValueError(self.error.args[0] + 1)
        except ValueError as error:
            self.error = error
        return self.error.args[0]


class SliceAndRange(_Value):
    """A slice and a range that move."""

    def start(self) -> None:
        self.window, self.numbers = slice(0, 2), range(10)

    def amount(self) -> float:
        self.window = slice(self.window.start + 1, self.window.stop + 2)
        self.numbers = self.numbers[1:]
        return sum(list(self.numbers)[self.window])


class MemoryviewKept(_Value):
    """A memoryview of a bytearray that is also on self."""

    expect = "either"
    named = "view"

    def start(self) -> None:
        self.bytes = bytearray(8)
        self.view = memoryview(self.bytes)[2:6]

    def amount(self) -> float:
        self.view[0] += 1
        self.bytes[3] += self.bytes[2]
        return self.view[1]


class BigNumbers(_Value):
    """A big integer, a complex number, bytes and a string."""

    def start(self) -> None:
        self.big, self.spiral, self.text, self.raw = 3**80, 1 + 0j, "", b""

    def amount(self) -> float:
        self.big = self.big * 7 + 1
        self.spiral *= 1 + 1j
        self.text += "é"
        self.raw += self.text.encode()
        return self.big % 11 + abs(self.spiral) + len(self.raw)


class SpecialFloats(_Value):
    """Infinity, minus zero and not-a-number, which is told by `is`."""

    def start(self) -> None:
        self.best, self.zero, self.count = float("inf"), 0.0, 0

    def amount(self) -> float:
        self.count += 1
        self.best = min(self.best, 3.0 + self.count)
        if self.count == 2:
            self.zero = -self.zero
        return self.best + (str(self.zero) == "-0.0") * self.count


class SentinelOfModule(_Value):
    """A module's sentinel, compared by identity."""

    expect = "either"
    named = "best"

    def start(self) -> None:
        self.best, self.count = MISSING, 0

    def amount(self) -> float:
        self.count += 1
        if self.count > 4 and self.best is MISSING:
            return 10.0
        return self.count


class SentinelOnSelf(_Value):
    """A sentinel made in build, compared by identity."""

    def start(self) -> None:
        self.nothing = object()
        self.best: Any = self.nothing
        self.count = 0

    def amount(self) -> float:
        self.count += 1
        return self.count if self.best is self.nothing else 20.0


class SimpleNamespaceState(_Value):
    """A SimpleNamespace inside another one."""

    def start(self) -> None:
        self.args = SimpleNamespace(inner=SimpleNamespace(count=0))

    def amount(self) -> float:
        self.args.inner.count += 1
        return self.args.inner.count


class MappingProxyKept(_Value):
    """A read-only view of a dict that changes."""

    expect = "either"
    named = "proxy"

    def start(self) -> None:
        self.counts = {"a": 0}
        self.proxy = MappingProxyType(self.counts)

    def amount(self) -> float:
        self.counts["a"] += 1
        return self.proxy["a"]


class Doubling:
    factor: ClassVar[int] = 2


class Tripling(Doubling):
    factor = 3


class ClassKept(_Value):
    """A class on self, and another one after step 1."""

    def start(self) -> None:
        self.kind: type[Doubling] = Doubling
        self.level = 1

    def amount(self) -> float:
        self.level *= self.kind.factor
        if self.level == 2:
            self.kind = Tripling
        return self.level % 17


class ClassChanged(_Value):
    """An object whose class is changed in training."""

    def start(self) -> None:
        self.object, self.count = Doubling(), 0

    def amount(self) -> float:
        self.count += 1
        if self.count == 3:
            self.object.__class__ = Tripling
        return self.object.factor + self.count * isinstance(self.object, Tripling)


class LocalClass(_Value):
    """An instance of a class that build defines, and the class."""

    expect = "either"
    named = "counter"

    def start(self) -> None:
        class Local:
            def __init__(self) -> None:
                self.count = 0

        self.counter, self.kind = Local(), Local

    def amount(self) -> float:
        self.counter.count += 1
        return self.counter.count + isinstance(self.counter, self.kind)


class DynamicType(_Value):
    """An instance of a type that is made by type()."""

    expect = "either"
    named = "counter"

    def start(self) -> None:
        self.counter = type("Dynamic", (), {"step": 2})()
        self.counter.count = 0

    def amount(self) -> float:
        self.counter.count += self.counter.step
        return self.counter.count


class Registry(type):
    known: ClassVar[dict[str, type]] = {}

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> Registry:
        made = super().__new__(mcs, name, bases, space)
        mcs.known[name] = made
        return made


class First(metaclass=Registry):
    weight = 1


class Second(metaclass=Registry):
    weight = 5


class Third(metaclass=Registry):
    weight = 7


class MetaclassRegistry(_Value):
    """Classes from a metaclass's registry, which training leaves alone."""

    def start(self) -> None:
        self.object: Any = First()

    def amount(self) -> float:
        after = {"First": "Second", "Second": "Third", "Third": "First"}
        self.object = Registry.known[after[type(self.object).__name__]]()
        return self.object.weight


class DeepCopyEachStep(_Value):
    """A list of snapshots, each a deep copy of a structure with aliases."""

    def start(self) -> None:
        shared = [0]
        self.pair, self.snapshots = [shared, shared], []

    def amount(self) -> float:
        self.pair[0].append(len(self.pair[1]))
        self.snapshots.append(copy.deepcopy(self.pair))
        self.snapshots[0][0].append(1)
        return sum(len(pair[1]) for pair in self.snapshots)
