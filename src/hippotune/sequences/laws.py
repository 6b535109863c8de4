"""Laws: what a value is over steps, in canonical form, counted from step 0 of the whole sequence.

What always holds: equal laws have equal values at every step, because a sequence's values are computed from
its laws and from nothing else. So two sequences agree wherever their laws are equal; no value is compared.
Laws of numbers in closed form are in `curves`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from hippotune.sequences.values import Value, plain, rounded_ratio, rounded_value, same


class Law(ABC):
    """A value at every step."""

    __slots__ = ()

    @abstractmethod
    def value(self, step: int) -> Value:
        """Return the value at a step."""

    @abstractmethod
    def shifted(self, by: int) -> Law:
        """Return the law that has at step + `by` the value that this one has at step."""

    def refined(self, parts: int) -> Law:
        """Return the law that has at step * `parts` the value that this one has at step, and values between.

        A law that has none between steps keeps each value for the whole step.
        """
        return Held(self, parts)


@dataclass(frozen=True, slots=True, eq=False)
class Flat(Law):
    """The same value at every step."""

    constant: Value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flat) and same(self.constant, other.constant)

    def __hash__(self) -> int:
        return hash(self.constant)

    def value(self, step: int) -> Value:
        """Return the constant."""
        return self.constant

    def shifted(self, by: int) -> Law:
        """Return itself."""
        return self

    def refined(self, parts: int) -> Law:
        """Return itself."""
        return self


def flat(value: Value | Fraction) -> Law:
    """Make a constant law."""
    if isinstance(value, Fraction):
        return Flat(rounded_ratio(value.numerator, value.denominator))
    return Flat(rounded_value(value))


@dataclass(frozen=True, slots=True)
class Listed(Law):
    """The values of a table, one a step from `origin` on; `booleans` says where True is not to equal 1."""

    values: tuple[Value, ...]
    booleans: frozenset[int]
    origin: int

    def value(self, step: int) -> Value:
        """Look the value up."""
        return self.values[step - self.origin]

    def shifted(self, by: int) -> Law:
        """Move the table along the steps."""
        return replace(self, origin=self.origin + by)


@dataclass(frozen=True, slots=True)
class Free(Law):
    """A user's function of the steps since `origin`; equal only to the same function."""

    function: Callable[[int], Any]
    origin: int

    def value(self, step: int) -> Value:
        """Call the function."""
        own = step - self.origin
        return rounded_value(plain(f"{self.function!r} at step {own}", self.function(own)))

    def shifted(self, by: int) -> Law:
        """Move the origin."""
        return replace(self, origin=self.origin + by)


@dataclass(frozen=True, slots=True)
class Held(Law):
    """The value of a law at the whole step that a part belongs to; `offset` parts are before its step 0."""

    law: Law
    parts: int
    offset: int = 0

    def value(self, step: int) -> Value:
        """Return the value of the whole step."""
        return self.law.value((step - self.offset) // self.parts)

    def shifted(self, by: int) -> Law:
        """Move the steps along the parts."""
        return replace(self, offset=self.offset + by)


@dataclass(frozen=True, slots=True)
class Grouped(Law):
    """All values of a finer law within a step, as a tuple; one value where they are all the same."""

    finer: Law
    parts: int

    def value(self, step: int) -> Value:
        """Return the values at the parts of a step."""
        values = tuple(self.finer.value(step * self.parts + part) for part in range(self.parts))
        return values[0] if all(same(values[0], value) for value in values[1:]) else cast("Value", values)

    def shifted(self, by: int) -> Law:
        """Move the finer law."""
        return grouped(self.finer.shifted(by * self.parts), self.parts)


def grouped(finer: Law, parts: int) -> Law:
    """Make the law of all values within a step."""
    return finer if isinstance(finer, Flat) else Grouped(finer, parts)
