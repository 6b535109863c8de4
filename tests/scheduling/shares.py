"""What tests of widths have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import ceil

from hippotune.scheduling import Contender, Fluid
from hippotune.scheduling.width import Time


def linear(width: Fraction) -> Fraction:
    """Twice as wide is twice as fast."""
    return width


def needed(widths: Iterable[Fraction]) -> int:
    """Return how many devices widths take: whole ones each their own, equal parts of one put together."""
    given = list(widths)
    packed = sum((width for width in given if width.denominator > 1), Fraction(0))
    return sum(width.numerator for width in given if width.denominator == 1) + ceil(packed)


def widths(
    times: Sequence[Time], devices: int, packing: int = 1, max_width: int | None = None
) -> list[Fraction]:
    """Return the widths that the policy gives to work that waits."""
    policy = Fluid(packing, max_width)
    steps = policy.steps(devices)
    return policy.widths([Contender(time, Fraction(0), steps) for time in times], devices, linear)
