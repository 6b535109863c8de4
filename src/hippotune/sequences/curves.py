"""Laws of numbers in closed form: lines, powers, exponentials, cosines.

The functions in lower case make them; they bring different ways to write one thing to one form (a line
without slope is flat, a shifted exponential is an exponential).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Self

from hippotune.sequences.laws import Law, flat
from hippotune.sequences.values import WIDE, Number, rounded, rounded_ratio, wide


@dataclass(frozen=True, slots=True)
class Line(Law):
    """(start + rise * step) / over, in lowest terms."""

    start: int
    rise: int
    over: int

    def value(self, step: int) -> Number:
        """Return the point on the line."""
        return rounded_ratio(self.start + self.rise * step, self.over)

    def shifted(self, by: int) -> Self:
        """Move the line along the steps; lowest terms stay lowest terms."""
        return replace(self, start=self.start - self.rise * by)

    def refined(self, parts: int) -> Self:
        """Count in parts of steps."""
        slope = Fraction(self.rise, self.over * parts)
        return type(self)(*_in_lowest_terms(Fraction(self.start, self.over), slope))


class Reciprocal(Line):
    """over / (start + rise * step), in lowest terms."""

    __slots__ = ()

    def value(self, step: int) -> Number:
        """Return the reciprocal of the point on the line."""
        return rounded_ratio(self.over, self.start + self.rise * step)


def line(start: Fraction, slope: Fraction) -> Law:
    """Make the law start + slope * step."""
    return Line(*_in_lowest_terms(start, slope)) if slope else flat(start)


def reciprocal(start: Fraction, slope: Fraction) -> Law:
    """Make the law 1 / (start + slope * step)."""
    return Reciprocal(*_in_lowest_terms(start, slope)) if slope else flat(1 / start)


def _in_lowest_terms(start: Fraction, slope: Fraction) -> tuple[int, int, int]:
    """Return two fractions by their numerators, and the least denominator that they have in common."""
    over = math.lcm(start.denominator, slope.denominator)
    return int(start * over), int(slope * over), over


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
    return Wave(high, low, *_in_lowest_terms(start, rise))


@dataclass(frozen=True, slots=True)
class Curve(Law):
    """A formula of the time, (step - origin) / length."""

    origin: int | Fraction
    length: int | Fraction

    def time(self, step: int) -> Decimal:
        """Return the time at a step."""
        if isinstance(self.origin, int) and isinstance(self.length, int):
            return WIDE.divide(step - self.origin, self.length)
        return wide(Fraction(step - self.origin, self.length))

    def shifted(self, by: int) -> Self:
        """Move the origin."""
        return replace(self, origin=self.origin + by)

    def refined(self, parts: int) -> Self:
        """Count in parts of steps."""
        return replace(self, origin=self.origin * parts, length=self.length * parts)


@dataclass(frozen=True, slots=True)
class Geometric(Curve):
    """coefficient * ratio ** time."""

    coefficient: Fraction
    ratio: Fraction

    def value(self, step: int) -> Number:
        """Return the point on the curve."""
        power = WIDE.power(wide(self.ratio), self.time(step))
        return rounded(WIDE.multiply(wide(self.coefficient), power))


def geometric(coefficient: Fraction, ratio: Fraction) -> Law:
    """Make the law coefficient * ratio ** step, for a positive ratio.

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
    return Geometric(-count, 1, coefficient / ratio**count, ratio)


def _order(number: Fraction, prime: int) -> int:
    return _multiplicity(number.numerator, prime) - _multiplicity(number.denominator, prime)


def _multiplicity(number: int, factor: int) -> int:
    count = 0
    while number % factor == 0:
        number //= factor
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class Power(Curve):
    """base + gap * time ** exponent, where the time is not negative."""

    base: Fraction
    gap: Fraction
    exponent: Fraction

    def value(self, step: int) -> Number:
        """Return the point on the curve."""
        return rounded(self._wide(step))

    def _wide(self, step: int) -> Decimal:
        power = WIDE.power(self.time(step), wide(self.exponent))
        return WIDE.add(wide(self.base), WIDE.multiply(wide(self.gap), power))

    def first_at_most(self, limit: Fraction) -> int:
        """Return the first step at which a falling curve that begins at step 0 is at most `limit`."""
        low, high = 0, 1
        while self._wide(high) > wide(limit):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._wide(middle) <= wide(limit) else (middle, high)
        return high


@dataclass(frozen=True, slots=True)
class InverseRoot(Curve):
    """sign / sqrt(time)."""

    sign: int

    def value(self, step: int) -> Number:
        """Return the root."""
        root = WIDE.sqrt(wide(Fraction(self.length, step - self.origin)))
        return rounded(root if self.sign > 0 else -root)


@dataclass(frozen=True, slots=True)
class Damped(Curve):
    """base + line * ratio ** time: a side of a triangle that shrinks on the way."""

    base: Fraction
    line: Line
    ratio: Fraction

    def value(self, step: int) -> Number:
        """Return the point on the damped side."""
        height = wide(Fraction(self.line.start + self.line.rise * step, self.line.over))
        scale = WIDE.power(wide(self.ratio), self.time(step))
        return rounded(WIDE.add(wide(self.base), WIDE.multiply(height, scale)))

    def shifted(self, by: int) -> Self:
        """Move line and origin."""
        return replace(self, line=self.line.shifted(by), origin=self.origin + by)

    def refined(self, parts: int) -> Self:
        """Count in parts of steps."""
        finer = self.line.refined(parts)
        return replace(self, line=finer, origin=self.origin * parts, length=self.length * parts)
