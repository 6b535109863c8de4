"""Sequences that swing between two values: cosines, triangles, and the one cycle of super-convergence.

Names and meanings are those of torch.optim.lr_scheduler, at every step and not only up to the natural end.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from hippotune import checks
from hippotune.sequences.base import FOREVER, Distribution, Piece, Real, Sequence, Whole
from hippotune.sequences.curves import Damped, Line, line, wave
from hippotune.sequences.laws import Law, flat
from hippotune.sequences.values import exact


class Cosine(Sequence):
    """From `value` down to `end` at step `steps` along half a cosine, and up again, as CosineAnnealingLR."""

    __slots__ = ()

    def __init__(self, value: Real, steps: Whole, end: Real = 0.0) -> None:
        super().__init__(
            checks.number("value", value), checks.whole("steps", steps, least=1), checks.number("end", end)
        )

    def _piece(self, step: int) -> Piece:
        value, steps, end = self.arguments
        return Piece(wave(exact(value), exact(end), Fraction(0), Fraction(steps)), FOREVER)


class CosineRestarts(Sequence):
    """From `value` towards `end` along half a cosine, again and again, as CosineAnnealingWarmRestarts.

    The first time takes `period` steps, every further one `mult` times as many as the one before.
    """

    __slots__ = ()

    def __init__(self, value: Real, period: Whole, mult: Whole = 1, end: Real = 0.0) -> None:
        super().__init__(
            checks.number("value", value),
            checks.whole("period", period, least=1),
            checks.whole("mult", mult, least=1),
            checks.number("end", end),
        )

    def _piece(self, step: int) -> Piece:
        value, length, mult, end = self.arguments
        if value == end or length == mult == 1:  # nothing to swing between, or only ever at its beginning
            return Piece(flat(exact(value)), FOREVER)
        start = 0
        if mult == 1:
            start = step // length * length
        else:
            while start + length <= step:
                start, length = start + length, length * mult
        return Piece(wave(exact(value), exact(end), Fraction(start), Fraction(length)), start + length)


_MODES: Final = ("triangular", "triangular2", "exp_range")

_VANISHED: Final = 4096
"""A height halved this often is nothing beside any float, and is nothing as a float."""


class Cyclic(Sequence):
    """From `low` to `high` in `up` steps, back in `down` (or `up`) steps, and again, as CyclicLR.

    With "triangular2" the height is halved every cycle, with "exp_range" multiplied by `gamma` every step.
    """

    __slots__ = ()

    def __init__(
        self,
        low: Real,
        high: Real,
        up: Whole,
        down: Whole | None = None,
        mode: str | Distribution = "triangular",
        gamma: Real = 1.0,
    ) -> None:
        super().__init__(
            checks.number("low", low),
            checks.number("high", high),
            checks.whole("up", up, least=1),
            None if down is None else checks.whole("down", down, least=1),
            checks.one_of("mode", mode, _MODES),
            checks.number("gamma", gamma, above=0),
        )

    def _identity(self) -> object:
        low, high, up, down, mode, gamma = self.arguments
        damped = mode == "exp_range" and gamma != 1
        return low, high, up, up if down is None else down, mode == "triangular2", gamma if damped else 1

    def _piece(self, step: int) -> Piece:
        low, high, up, down, mode, gamma = self.arguments
        base, gap = exact(low), exact(high) - exact(low)
        down = up if down is None else down
        cycle, place = divmod(step, up + down)
        start = step - place
        if mode == "triangular2":
            gap = gap / 2**cycle if cycle < _VANISHED else Fraction(0)
        if not gap:
            return Piece(flat(base), FOREVER)
        if place < up:
            height, slope, end = -gap * start / up, gap / up, start + up
        else:
            end = start + up + down
            height, slope = gap * end / down, -gap / down
        if mode != "exp_range" or gamma == 1:
            return Piece(line(base + height, slope), end)
        side = line(height, slope)
        assert isinstance(side, Line)  # the slope is not 0
        return Piece(Damped(0, 1, base, side, exact(gamma)), end)


_ANNEALS: Final = ("cos", "linear")


class OneCycle(Sequence):
    """Up from peak / div to `peak` and down to peak / div / final_div, as OneCycleLR; the last value is held.

    `warm` is the part of `steps` spent going up. With `three_phase` the way down is first as long as the way
    up, back to where it began, and then on to the last value.
    """

    __slots__ = ()

    def __init__(
        self,
        peak: Real,
        steps: Whole,
        warm: Real = 0.3,
        anneal: str | Distribution = "cos",
        div: Real = 25.0,
        final_div: Real = 1e4,
        three_phase: bool | Distribution = False,
    ) -> None:
        super().__init__(
            checks.number("peak", peak),
            checks.whole("steps", steps, least=1),
            checks.number("warm", warm, least=0, most=1),
            checks.one_of("anneal", anneal, _ANNEALS),
            checks.number("div", div, above=0),
            checks.number("final_div", final_div, above=0),
            checks.yes_or_no("three_phase", three_phase),
        )

    def _piece(self, step: int) -> Piece:
        steps: int = self.arguments[1]
        if step >= steps:
            return Piece(flat(self._piece(steps - 1).law.value(steps - 1)), FOREVER)
        begin = Fraction(0)
        phases = self._phases()
        for end, first, last in phases[:-1]:
            if step <= end:
                return Piece(self._way(first, last, begin, end), min(math.floor(end) + 1, steps))
            begin = end
        end, first, last = phases[-1]
        return Piece(self._way(first, last, begin, end), steps)

    def _phases(self) -> list[tuple[Fraction, Fraction, Fraction]]:
        """Return (last step, value at the begin, value at the end) of each phase; steps may be fractions."""
        peak, steps, warm, _, div, final_div, three_phase = self.arguments
        high = exact(peak)
        initial = high / exact(div)
        final = initial / exact(final_div)
        top = exact(warm) * steps - 1
        if three_phase:
            return [(top, initial, high), (2 * top, high, initial), (Fraction(steps - 1), initial, final)]
        return [(top, initial, high), (Fraction(steps - 1), high, final)]

    def _way(self, first: Fraction, last: Fraction, begin: Fraction, end: Fraction) -> Law:
        length = end - begin
        if not length:
            return flat(last)
        if self.arguments[3] == "cos":
            return wave(first, last, begin, length)
        slope = (last - first) / length
        return line(first - slope * begin, slope)
