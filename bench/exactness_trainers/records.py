"""State in dataclasses and named tuples."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from exactness_trainers.base import Plain


class _Dataclass(Plain):
    cause = "dataclasses and named tuples"


@dataclass
class Progress:
    count: int = 0
    seen: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Fixed:
    count: int = 0
    seen: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Slotted:
    count: int = 0
    inner: Progress = field(default_factory=Progress)


class MutableDataclass(_Dataclass):
    """A dataclass whose fields change."""

    def start(self) -> None:
        self.progress = Progress()

    def amount(self) -> float:
        self.progress.count += 1
        self.progress.seen.append(self.progress.count)
        return sum(self.progress.seen)


class FrozenDataclass(_Dataclass):
    """A frozen dataclass that is replaced in every step."""

    def start(self) -> None:
        self.progress = Fixed()

    def amount(self) -> float:
        self.progress = replace(self.progress, count=self.progress.count + 1)
        return self.progress.count


class FrozenWithList(_Dataclass):
    """A frozen dataclass with a list that grows."""

    def start(self) -> None:
        self.progress = Fixed()

    def amount(self) -> float:
        self.progress.seen.append(len(self.progress.seen))
        return sum(self.progress.seen)


class SlottedDataclass(_Dataclass):
    """A dataclass with slots, and another one in it."""

    def start(self) -> None:
        self.progress = Slotted()

    def amount(self) -> float:
        self.progress.inner.count += 1
        self.progress.count += self.progress.inner.count
        return self.progress.count


class Pair(NamedTuple):
    count: int
    total: float


Triple = namedtuple("Triple", ["name", "numbers", "pair"])


class NamedTupleRebound(_Dataclass):
    """A named tuple that is replaced in every step."""

    def start(self) -> None:
        self.pair = Pair(0, 0.0)

    def amount(self) -> float:
        self.pair = self.pair._replace(count=self.pair.count + 1, total=self.pair.total + self.pair.count)
        return self.pair.total


class NamedTupleWithList(_Dataclass):
    """A named tuple that stays the same and holds a list that grows."""

    def start(self) -> None:
        self.triple = Triple("numbers", [1], Pair(1, 1.0))

    def amount(self) -> float:
        self.triple.numbers.append(len(self.triple.numbers))
        return sum(self.triple.numbers)
