"""How long training takes in virtual time: from any step to any other by arithmetic, not step by step.

A function of hyper-parameters is called once for every combination of values that it has looked at. It is
given a mapping that notes which values are read, so a step's time is known to stay as it is until one of
those changes, whatever other hyper-parameters do meanwhile.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.base import FOREVER
from hippotune.sequences.config import Config
from hippotune.sequences.laws import Flat
from hippotune.sequences.values import Value, tagged

SecondsPerStep = float | Callable[[Mapping[str, Value], float], float]
Scaling = Mapping[float, float]

# What float arithmetic may be off by, in steps: a worker that is this close to a step's end has reached it.
_ROUNDING: Final = 1e-9


class StepTimes:
    """Seconds per step: a number at width 1 with a scaling curve, or a function of values and width."""

    def __init__(self, seconds_per_step: SecondsPerStep, scaling: Scaling | None = None) -> None:
        if callable(seconds_per_step):
            if scaling is not None:
                raise InvalidInput(
                    "seconds_per_step is a function, and gives the seconds at every width itself; "
                    f"leave out scaling, which is {scaling!r}"
                )
            self._function: Callable[[Mapping[str, Value], float], float] | None = seconds_per_step
            self._number = 0.0
        else:
            self._function = None
            self._number = checks.number("seconds_per_step", seconds_per_step, above=0)
        self._curve = None if scaling is None else ScalingCurve(scaling)
        self._read: tuple[str, ...] = ()
        self._known: dict[tuple[object, ...], float] = {}

    def seconds(self, config: Config, first: int, last: int, width: float) -> float:
        """Return how long it takes to train from step count `first` to `last`."""
        if self._function is None:
            return (last - first) * self._seconds_at(width)
        total, step = 0.0, first
        while step < last:
            each, until = self._stretch(config, step, width)
            until = min(until, last)
            total += each * (until - step)
            step = until
        return total

    def steps(self, config: Config, first: int, last: int, seconds: float, width: float) -> int:
        """Return the step count reached when `seconds` have gone by since `first`; `last` at most."""
        step, left = first, seconds
        while step < last:
            each, until = self._stretch(config, step, width)
            until = min(until, last)
            whole = min(math.floor(left / each + _ROUNDING), until - step)
            step += whole
            left -= whole * each
            if step < until:
                break
        return step

    def _stretch(self, config: Config, step: int, width: float) -> tuple[float, int]:
        """Return the seconds of the step after `step`, and the step count from which that may change."""
        if self._function is None:
            return self._seconds_at(width), FOREVER
        sequences = [config[name] for name in self._read if name in config]
        seconds = self._known.get((width, config.names, *[tagged(each.value(step)) for each in sequences]))
        if seconds is None:
            seconds = self._ask(config, step, width)
            sequences = [config[name] for name in self._read if name in config]
        until = FOREVER
        for sequence in sequences:
            law, end = sequence.piece(step)
            until = min(until, end if isinstance(law, Flat) else step + 1)
        return seconds, until

    def _ask(self, config: Config, step: int, width: float) -> float:
        assert self._function is not None
        values = _Noticed(config, step)
        returned = self._function(values, width)
        seconds = checks.number(f"seconds_per_step({values.noticed}, {width:g})", returned, above=0)
        if not values.noticed.keys() <= set(self._read):
            self._read = tuple(sorted({*self._read, *values.noticed}))
            self._known.clear()  # its keys do not say enough
        sequences = [config[name] for name in self._read if name in config]
        self._known[width, config.names, *[tagged(each.value(step)) for each in sequences]] = seconds
        return seconds

    def _seconds_at(self, width: float) -> float:
        return self._number / (width if self._curve is None else self._curve.speed_up(width))


class ScalingCurve:
    """A measured speed-up by width: straight between the widths measured, in proportion below them."""

    def __init__(self, points: Mapping[float, float]) -> None:
        if not isinstance(points, Mapping) or not points:
            raise InvalidInput(
                f"scaling is {points!r}; expected measured speed-ups by width, such as {{1: 1.0, 2: 1.87}}"
            )
        self._widths = sorted(checks.number("a width in scaling", width, above=0) for width in points)
        self._speed_ups = [
            checks.number(f"scaling at width {width:g}", points[width], above=0) for width in self._widths
        ]

    def speed_up(self, width: float) -> float:
        """Return how many times faster `width` workers are than one."""
        place = bisect_left(self._widths, width)
        if place == len(self._widths):
            measured = ", ".join(f"{each:g}" for each in self._widths)
            raise InvalidInput(
                f"scaling says nothing of width {width:g}; it was measured at {measured}: add a figure for it"
            )
        upper, fast = self._widths[place], self._speed_ups[place]
        if place == 0 or width == upper:
            return fast * width / upper
        lower, slow = self._widths[place - 1], self._speed_ups[place - 1]
        return slow + (fast - slow) * (width - lower) / (upper - lower)


class _Noticed(Mapping[str, Value]):
    """The values of a config at a step, and which of them were looked at."""

    def __init__(self, config: Config, step: int) -> None:
        self._config = config
        self._step = step
        self.noticed: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        value = self._config[name].value(self._step)
        self.noticed[name] = value
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._config)

    def __len__(self) -> int:
        return len(self._config)
