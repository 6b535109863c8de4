"""Sequences that go from one value to another and stay there, or fall for ever.

Names and meanings are those of torch.optim.lr_scheduler where it has the like.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.base import FOREVER, Distribution, Piece, Real, Sequence, Whole
from hippotune.sequences.curves import InverseRoot, Power, geometric, line
from hippotune.sequences.laws import flat
from hippotune.sequences.values import (
    WIDE,
    Number,
    Written,
    exact,
    plain,
    rounded,
    rounded_value,
    tagged,
    wide,
)


class Linear(Sequence):
    """From `start` to `end` in equal steps; `end` is reached at step `steps` and held."""

    __slots__ = ()

    def __init__(self, start: Real, end: Real, steps: Whole) -> None:
        super().__init__(
            checks.number("start", start), checks.number("end", end), checks.whole("steps", steps, least=1)
        )

    def _piece(self, step: int) -> Piece:
        start, end, steps = self.arguments
        if step >= steps:
            return Piece(flat(exact(end)), FOREVER)
        return Piece(line(exact(start), (exact(end) - exact(start)) / steps), steps)


class Exponential(Sequence):
    """`value` times `gamma` to the power of the step, as ExponentialLR."""

    __slots__ = ()

    def __init__(self, value: Real, gamma: Real) -> None:
        super().__init__(checks.number("value", value), checks.number("gamma", gamma, least=0))

    def _piece(self, step: int) -> Piece:
        value, gamma = self.arguments
        if gamma == 0:
            return Piece(flat(exact(value)), 1) if step == 0 else Piece(flat(exact(0)), FOREVER)
        return Piece(geometric(exact(value), exact(gamma)), FOREVER)


class Polynomial(Sequence):
    """From `value` to `end` along (1 - step / steps) ** power, as PolynomialLR; `end` is held."""

    __slots__ = ()

    def __init__(self, value: Real, steps: Whole, power: Real = 1.0, end: Real = 0.0) -> None:
        super().__init__(
            checks.number("value", value),
            checks.whole("steps", steps, least=1),
            checks.number("power", power, above=0),
            checks.number("end", end),
        )

    def _piece(self, step: int) -> Piece:
        value, steps, power, end = self.arguments
        gap = exact(value) - exact(end)
        if step >= steps or not gap:
            return Piece(flat(exact(end)), FOREVER)
        if power == 1:
            return Piece(line(exact(value), -gap / steps), steps)
        return Piece(Power(steps, -steps, exact(end), gap, exact(power)), steps)


class InverseSqrt(Sequence):
    """`value` times sqrt(scale / (step + scale)): half of it is left at three times `scale`."""

    __slots__ = ()

    def __init__(self, value: Real, scale: Real = 1) -> None:
        super().__init__(checks.number("value", value), checks.number("scale", scale, above=0))

    def _piece(self, step: int) -> Piece:
        value, scale = (exact(argument) for argument in self.arguments)
        if not value:
            return Piece(flat(value), FOREVER)
        return Piece(InverseRoot(-scale, value * value * scale, 1 if value > 0 else -1), FOREVER)


class Step(Sequence):
    """`value`, multiplied by `gamma` every `size` steps, as StepLR. Whole numbers stay whole."""

    __slots__ = ()

    def __init__(self, value: Real, size: Whole, gamma: Real = 0.1) -> None:
        super().__init__(
            checks.number("value", value),
            checks.whole("size", size, least=1),
            checks.number("gamma", gamma, least=0),
        )

    def _piece(self, step: int) -> Piece:
        value, size, gamma = self.arguments
        count = step // size
        now = _decayed(value, gamma, count)
        settled = now == 0 or gamma == 1 or (isinstance(now, float) and math.isinf(now))
        return Piece(flat(now), FOREVER if settled else (count + 1) * size)


class MultiStep(Sequence):
    """`value`, multiplied by `gamma` at every milestone, as MultiStepLR. Whole numbers stay whole."""

    __slots__ = ()

    def __init__(self, value: Real, milestones: Iterable[Whole] | Distribution, gamma: Real = 0.1) -> None:
        super().__init__(
            checks.number("value", value),
            checks.milestones("milestones", milestones, repeats=True),
            checks.number("gamma", gamma, least=0),
        )

    def _piece(self, step: int) -> Piece:
        value, milestones, gamma = self.arguments
        count = bisect_right(milestones, step)
        return Piece(flat(_decayed(value, gamma, count)), (*milestones, FOREVER)[count])


def _decayed(value: Number, gamma: Number, count: int) -> Number:
    if isinstance(value, int) and isinstance(gamma, int):
        return int(value * gamma**count)
    if count == 0:  # also where gamma is 0
        return rounded(wide(exact(value)))
    return rounded(WIDE.multiply(wide(exact(value)), WIDE.power(wide(exact(gamma)), count)))


class Piecewise(Sequence):
    """values[0] up to the first milestone, values[1] from it on, …: numbers, strings or booleans."""

    __slots__ = ()

    def __init__(
        self,
        values: Iterable[Written | Distribution] | Distribution,
        milestones: Iterable[Whole] | Distribution,
    ) -> None:
        listed = checks.several("values", values)
        steps = checks.milestones("milestones", milestones, repeats=False)
        if len(listed) != len(steps) + 1:
            raise InvalidInput(
                f"values has {len(listed)} items and milestones {len(steps)}; "
                "expected one value more than there are milestones"
            )
        super().__init__(tuple(plain(f"values[{at}]", value) for at, value in enumerate(listed)), steps)

    def _piece(self, step: int) -> Piece:
        values, milestones = self.arguments
        count = bisect_right(milestones, step)
        return Piece(flat(values[count]), (*milestones, FOREVER)[count])

    def _identity(self) -> object:
        values, milestones = self.arguments
        return tuple([tagged(rounded_value(value)) for value in values]), milestones
