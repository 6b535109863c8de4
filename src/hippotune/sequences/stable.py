"""Schedules made for branching: a warm-up, a long stable phase, and decays that leave it.

Trials that differ in their horizon, or in how they decay, share everything up to where the first of them
decays. A decay begins at the stable value itself, so that one more step is shared there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Final

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.base import FOREVER, Distribution, Part, Piece, Real, Sequence, Whole
from hippotune.sequences.combined import Then, Warmup
from hippotune.sequences.constant import Constant
from hippotune.sequences.curves import Geometric, line, reciprocal, wave
from hippotune.sequences.curves import Power as PowerLaw
from hippotune.sequences.laws import Law, flat
from hippotune.sequences.values import Number, exact

_SHAPES: Final = ("1-sqrt", "linear", "cosine", "exp", "inverse")
_NEED_END: Final = ("exp", "inverse")


class Decay(Sequence):
    """From `value` down to `end`, which is reached at step `steps` and held.

    With u = step / steps, the shapes are:

    * "1-sqrt": end + (value - end) * (1 - sqrt(u)), of Hägele et al. 2024;
    * "linear" and "cosine" (half a cosine);
    * "exp": value * (end / value) ** u, of MiniCPM; `end` must be above 0;
    * "inverse": 1 / (u / end + (1 - u) / value), of WSD-S (Wen et al. 2024); `end` must be above 0.
    """

    __slots__ = ()

    def __init__(
        self, value: Real, steps: Whole, shape: str | Distribution = "1-sqrt", end: Real = 0.0
    ) -> None:
        shape = checks.one_of("shape", shape, _SHAPES)
        above = 0 if shape in _NEED_END else -math.inf
        super().__init__(
            checks.number("value", value, above=above),
            checks.whole("steps", steps, least=1),
            shape,
            checks.number("end", end, above=above),
        )

    def _piece(self, step: int) -> Piece:
        value, steps, shape, end = self.arguments
        if step >= steps:
            return Piece(flat(exact(end)), FOREVER)
        return Piece(_law(shape, exact(value), exact(end), steps), steps)


def _law(shape: str, high: Fraction, low: Fraction, steps: int) -> Law:
    if high == low:
        return flat(high)
    match shape:
        case "linear":
            return line(high, (low - high) / steps)
        case "cosine":
            return wave(high, low, Fraction(0), Fraction(steps))
        case "exp":
            return Geometric(0, steps, high, low / high)
        case "inverse":
            return reciprocal(1 / high, (1 / low - 1 / high) / steps)
        case _:
            return PowerLaw(0, steps, high, low - high, Fraction(1, 2))


class _Composed(Sequence):
    """A sequence that stands for one put together from others: it has its values, laws and parts."""

    __slots__ = ("_inner",)

    _inner: Sequence

    def part(self, step: int) -> Part:
        """Return the innermost sequence in force at a step."""
        return self._inner.part(step)

    def _piece(self, step: int) -> Piece:
        return self._inner.piece(step)


class WSD(_Composed):
    """Warm-up, stable, decay: up to `peak` in `warmup` equal steps, there, and down at the end of `steps`.

    `decay` is how long the way down is: a part of `steps` below 1, or a number of steps. `shape` and `end`
    are those of `Decay`. ``WSD(0.1, 1000, warmup=50, decay=0.2)`` is ``Warmup(50, 0.1)`` up to step 800, and
    ``Decay(0.1, 200)`` from there.
    """

    __slots__ = ()

    def __init__(
        self,
        peak: Real,
        steps: Whole,
        warmup: Whole = 0,
        decay: Real = 0.1,
        shape: str | Distribution = "1-sqrt",
        end: Real = 0.0,
    ) -> None:
        high, horizon = checks.number("peak", peak), checks.whole("steps", steps, least=1)
        up = checks.whole("warmup", warmup, least=0)
        super().__init__(high, horizon, up, _length("decay", decay), shape, checks.number("end", end))
        down = _steps_of(self.arguments[3], horizon)
        if up + down > horizon:
            raise InvalidInput(
                f"a warm-up of {up} steps and a decay of {down} are longer than steps, which is {horizon}; "
                "make one of them shorter, or steps larger"
            )
        stable = Warmup(up, high) if up else Constant(high)
        inner = stable.then(Decay(high, down, shape, end), at=horizon - down)
        object.__setattr__(self, "_inner", inner)


class WSDS(_Composed):
    """WSD-S, of Wen et al. 2024: decays on the way, after each of which training goes on at the peak.

    A decay ends at each of the steps in `ends`. It takes a part of all steps until then (`decay` below 1), as
    the decay of a `WSD` of that horizon does, or as many steps as `decay` says. The step at which a decay
    ends has the peak again.
    """

    __slots__ = ()

    def __init__(
        self,
        peak: Real,
        ends: Iterable[Whole] | Distribution,
        end: Real,
        warmup: Whole = 0,
        decay: Real = 0.1,
        shape: str | Distribution = "inverse",
    ) -> None:
        high = checks.number("peak", peak)
        horizons = checks.milestones("ends", ends, repeats=False)
        if not horizons:
            raise InvalidInput("ends is empty; expected the steps at which decays end")
        up = checks.whole("warmup", warmup, least=0)
        super().__init__(high, horizons, checks.number("end", end), up, _length("decay", decay), shape)
        parts: list[Sequence] = [Warmup(up, high) if up else Constant(high)]
        at: list[int] = []
        for before, horizon in pairwise((up, *horizons)):
            down = _steps_of(self.arguments[4], horizon)
            if horizon - down < before:
                raise InvalidInput(
                    f"the decay that ends at step {horizon} takes {down} steps, and would begin before "
                    f"step {before}, where the one before it, or the warm-up, ends; make decay shorter"
                )
            parts += [Decay(high, down, shape, end), Constant(high)]
            at += [horizon - down, horizon]
        object.__setattr__(self, "_inner", Then(parts, at))


class Power(Sequence):
    """min(max, batch * a * n ** b), n the tokens trained so far: the power scheduler of Shen et al. 2024.

    `tokens` is how many a step trains, `batch` the batch size as the paper counts it. In the first `warmup`
    steps the rate goes up in equal steps to what the law says where they end; their tokens count. It has no
    horizon: decays leave it as branches.
    """

    __slots__ = ()

    def __init__(
        self, max: Real, batch: Real, tokens: Real, a: Real = 4.0, b: Real = -0.51, warmup: Whole = 0
    ) -> None:
        falls = checks.number("b", b)
        if falls >= 0:
            raise InvalidInput(f"b is {b!r}; expected a number below 0")
        super().__init__(
            checks.number("max", max, above=0),
            checks.number("batch", batch, above=0),
            checks.number("tokens", tokens, above=0),
            checks.number("a", a, above=0),
            falls,
            checks.whole("warmup", warmup, least=0),
        )

    def _piece(self, step: int) -> Piece:
        most, batch, tokens, a, b = (exact(argument) for argument in self.arguments[:5])
        warmup = self.arguments[5]
        law = PowerLaw(0, 1 / tokens, Fraction(0), batch * a, b)
        turn = law.first_at_most(most)
        if step < warmup:
            increment = (exact(law.value(warmup)) if turn <= warmup else most) / (warmup + 1)
            return Piece(line(increment, increment), warmup)
        return Piece(flat(most), turn) if step < turn else Piece(law, FOREVER)


def _length(name: str, value: object) -> Number:
    """Return a length: a part of a whole, above 0 and below 1, or a number of steps."""
    length = checks.number(name, value, above=0)
    if length >= 1 and not float(length).is_integer():
        raise InvalidInput(f"{name} is {value!r}; expected a part below 1, or a whole number of steps")
    return length if length < 1 else int(length)


def _steps_of(length: Number, whole: int) -> int:
    """Return a length in steps: at least one."""
    return int(length) if length >= 1 else max(round(exact(length) * whole), 1)
