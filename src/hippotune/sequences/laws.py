"""Laws: closed forms of a value over steps, in canonical form, counted from step 0 of the whole sequence.

What always holds: equal laws have equal values at every step, because a sequence's values are computed from
its laws and from nothing else. So two sequences agree wherever their laws are equal; no value is compared.
The functions in lower case make laws; they bring different ways to write one thing to one form (a line
without slope is flat, a shifted exponential is an exponential).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

from hippotune.sequences.values import (
    WIDE,
    Number,
    Value,
    plain,
    rounded,
    rounded_ratio,
    rounded_value,
    same,
    wide,
)


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
class Line(Law):
    """(start + rise * step) / over, in lowest terms."""

    start: int
    rise: int
    over: int

    def value(self, step: int) -> Number:
        """Return the point on the line."""
        return rounded_ratio(self.start + self.rise * step, self.over)

    def shifted(self, by: int) -> Law:
        """Move the line along the steps; lowest terms stay lowest terms."""
        return Line(self.start - self.rise * by, self.rise, self.over)

    def refined(self, parts: int) -> Law:
        """Count in parts of steps."""
        return line(Fraction(self.start, self.over), Fraction(self.rise, self.over * parts))


def line(start: Fraction, slope: Fraction) -> Law:
    """Make the law start + slope * step."""
    if not slope:
        return flat(start)
    over = math.lcm(start.denominator, slope.denominator)
    return Line(int(start * over), int(slope * over), over)


@dataclass(frozen=True, slots=True)
class Geometric(Law):
    """coefficient * ratio ** (step - origin)."""

    coefficient: Fraction
    ratio: Fraction
    origin: int

    def value(self, step: int) -> Number:
        """Return the power."""
        power = WIDE.power(wide(self.ratio), step - self.origin)
        return rounded(WIDE.multiply(wide(self.coefficient), power))

    def shifted(self, by: int) -> Law:
        """Move the origin."""
        return Geometric(self.coefficient, self.ratio, self.origin + by)

    def refined(self, parts: int) -> Law:
        """Count in parts of steps."""
        return Interpolated(self.coefficient, self.ratio, self.origin * parts, parts)


def geometric(coefficient: Fraction, ratio: Fraction, origin: int = 0) -> Law:
    """Make the law coefficient * ratio ** (step - origin), for a positive ratio.

    Factors of the ratio that the coefficient holds are moved into the origin, so that 0.1 * 0.5 ** step and
    0.05 * 0.5 ** (step - 1) are one law.
    """
    if ratio == 1 or not coefficient:
        return flat(coefficient)
    prime = next((p for p in (2, 5) if ratio.numerator % p == 0 or ratio.denominator % p == 0), None)
    if prime is None:  # a whole ratio (a decimal fraction has 2 or 5 below the line), such as 3 or 7
        count = _multiplicity(coefficient.numerator, ratio.numerator)
    else:
        count = _order(coefficient, prime) // _order(ratio, prime)
    coefficient /= ratio**count
    return Geometric(coefficient, ratio, origin - count)


def _order(number: Fraction, prime: int) -> int:
    return _multiplicity(number.numerator, prime) - _multiplicity(number.denominator, prime)


def _multiplicity(number: int, factor: int) -> int:
    count = 0
    while number % factor == 0:
        number //= factor
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class Wave(Law):
    """Between `high` and `low` along half a cosine: at `high` where (start + rise * step) / over is even."""

    high: Fraction
    low: Fraction
    start: int
    rise: int
    over: int

    def value(self, step: int) -> Number:
        """Return high * cos(x)**2 + low * sin(x)**2, precise at both ends."""
        turn = (self.start + self.rise * step) % (2 * self.over)
        turn = min(turn, 2 * self.over - turn)
        angle = min(turn, self.over - turn) / (2 * self.over) * math.pi
        near, far = math.cos(angle), math.sin(angle)
        if 2 * turn > self.over:
            near, far = far, near
        high = WIDE.multiply(wide(self.high), Decimal(near * near))
        low = WIDE.multiply(wide(self.low), Decimal(far * far))
        return rounded(WIDE.add(high, low))

    def shifted(self, by: int) -> Law:
        """Move the wave along the steps."""
        start = Fraction(self.start - self.rise * by, self.over)
        return _wave(self.high, self.low, start, Fraction(self.rise, self.over))

    def refined(self, parts: int) -> Law:
        """Count in parts of steps."""
        rise = Fraction(self.rise, self.over * parts)
        return _wave(self.high, self.low, Fraction(self.start, self.over), rise)


def wave(high: Fraction, low: Fraction, origin: Fraction, length: Fraction) -> Law:
    """Make the cosine that is at `high` at step `origin` and at `low` a (positive) `length` later."""
    return _wave(high, low, -origin / length, 1 / length)


def _wave(high: Fraction, low: Fraction, start: Fraction, rise: Fraction) -> Law:
    if high == low:
        return flat(high)
    start %= 2
    if start >= 1:  # half a turn on: the same wave upside down
        start, high, low = start - 1, low, high
    over = math.lcm(start.denominator, rise.denominator)
    return Wave(high, low, int(start * over), int(rise * over), over)


@dataclass(frozen=True, slots=True)
class Power(Law):
    """base + gap * ((zero - step) / length) ** exponent."""

    base: Fraction
    gap: Fraction
    length: int
    zero: int
    exponent: Fraction

    def value(self, step: int) -> Number:
        """Return the point on the curve; asked for up to `zero` only."""
        rest = wide(Fraction(self.zero - step, self.length))
        fall = WIDE.multiply(wide(self.gap), WIDE.power(rest, wide(self.exponent)))
        return rounded(WIDE.add(wide(self.base), fall))

    def shifted(self, by: int) -> Law:
        """Move the end."""
        return Power(self.base, self.gap, self.length, self.zero + by, self.exponent)

    def refined(self, parts: int) -> Law:
        """Count in parts of steps."""
        return Power(self.base, self.gap, self.length * parts, self.zero * parts, self.exponent)


@dataclass(frozen=True, slots=True)
class Rise(Law):
    """base + gap * ((step - zero) / length) ** exponent: the power of a distance that grows."""

    base: Fraction
    gap: Fraction
    zero: int
    length: Fraction
    exponent: Fraction

    def value(self, step: int) -> float:
        """Return the point on the curve; asked for from `zero` on only."""
        return rounded(self._wide(step))

    def _wide(self, step: int) -> Decimal:
        way = wide((step - self.zero) / self.length)
        return WIDE.add(wide(self.base), WIDE.multiply(wide(self.gap), WIDE.power(way, wide(self.exponent))))

    def shifted(self, by: int) -> Law:
        """Move the beginning."""
        return Rise(self.base, self.gap, self.zero + by, self.length, self.exponent)

    def refined(self, parts: int) -> Law:
        """Count in parts of steps."""
        return Rise(self.base, self.gap, self.zero * parts, self.length * parts, self.exponent)

    def first_at_most(self, limit: Fraction) -> int:
        """Return the first step after `zero` at which a falling curve is at most `limit`."""
        low, high = self.zero, self.zero + 1
        while self._wide(high) > wide(limit):
            low, high = high, self.zero + 2 * (high - self.zero)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._wide(middle) <= wide(limit) else (middle, high)
        return high


@dataclass(frozen=True, slots=True)
class Interpolated(Law):
    """start * ratio ** ((step - zero) / length): from one value to another by equal factors."""

    start: Fraction
    ratio: Fraction
    zero: int
    length: int

    def value(self, step: int) -> float:
        """Return the point on the curve."""
        power = WIDE.power(wide(self.ratio), wide(Fraction(step - self.zero, self.length)))
        return rounded(WIDE.multiply(wide(self.start), power))

    def shifted(self, by: int) -> Law:
        """Move the beginning."""
        return Interpolated(self.start, self.ratio, self.zero + by, self.length)

    def refined(self, parts: int) -> Law:
        """Count in parts of steps."""
        return Interpolated(self.start, self.ratio, self.zero * parts, self.length * parts)


@dataclass(frozen=True, slots=True)
class Reciprocal(Law):
    """over / (start + rise * step), in lowest terms."""

    start: int
    rise: int
    over: int

    def value(self, step: int) -> float:
        """Return the reciprocal of the point on the line."""
        return rounded_ratio(self.over, self.start + self.rise * step)

    def shifted(self, by: int) -> Law:
        """Move the curve along the steps."""
        return Reciprocal(self.start - self.rise * by, self.rise, self.over)

    def refined(self, parts: int) -> Law:
        """Count in parts of steps."""
        return reciprocal(Fraction(self.start, self.over), Fraction(self.rise, self.over * parts))


def reciprocal(start: Fraction, slope: Fraction) -> Law:
    """Make the law 1 / (start + slope * step)."""
    below = line(start, slope)
    if not isinstance(below, Line):
        return flat(1 / start)
    return Reciprocal(below.start, below.rise, below.over)


@dataclass(frozen=True, slots=True)
class InverseRoot(Law):
    """sign * sqrt(square / (step + offset))."""

    sign: int
    square: Fraction
    offset: Fraction

    def value(self, step: int) -> Number:
        """Return the root."""
        root = WIDE.sqrt(wide(self.square / (step + self.offset)))
        return rounded(root if self.sign > 0 else -root)

    def shifted(self, by: int) -> Law:
        """Move the curve along the steps."""
        return InverseRoot(self.sign, self.square, self.offset - by)

    def refined(self, parts: int) -> Law:
        """Count in parts of steps."""
        return InverseRoot(self.sign, self.square * parts, self.offset * parts)


@dataclass(frozen=True, slots=True)
class Damped(Law):
    """base + line * ratio ** ((step - origin) / length): a side of a triangle that shrinks on the way."""

    base: Fraction
    line: Line
    ratio: Fraction
    origin: int
    length: int = 1

    def value(self, step: int) -> Number:
        """Return the point on the damped side."""
        height = wide(Fraction(self.line.start + self.line.rise * step, self.line.over))
        scale = WIDE.power(wide(self.ratio), wide(Fraction(step - self.origin, self.length)))
        return rounded(WIDE.add(wide(self.base), WIDE.multiply(height, scale)))

    def shifted(self, by: int) -> Law:
        """Move line and origin."""
        moved = Line(self.line.start - self.line.rise * by, self.line.rise, self.line.over)
        return Damped(self.base, moved, self.ratio, self.origin + by, self.length)

    def refined(self, parts: int) -> Law:
        """Count in parts of steps."""
        finer = self.line.refined(parts)
        assert isinstance(finer, Line)
        return Damped(self.base, finer, self.ratio, self.origin * parts, self.length * parts)


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
        return Listed(self.values, self.booleans, self.origin + by)


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
        return Free(self.function, self.origin + by)


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
        return Held(self.law, self.parts, self.offset + by)


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
