"""Schedules as numbers that a model can learn from.

A hyper-parameter is looked at at a number of steps. Of numbers are taken: the largest value, the first and
the last, the mean, the mean of logarithms, how long the way up is, where the way down begins, and how much of
all steps is spent low. Of anything else: which value it begins with, and which it ends with. Numbers that
span more than a factor of ten are taken as logarithms. Whether a config has a hyper-parameter counts too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hippotune.sequences.base import Sequence as Schedule
from hippotune.sequences.config import Config

Numbers = NDArray[np.float64]

_LOOKS = 25
"""At how many steps a schedule is looked at."""

_WIDE = 10.0
"""Numbers that span more than this factor are taken as logarithms."""


class Features:
    """Features of configs that are trained for `steps` steps, scaled to what is usual among `reference`."""

    def __init__(self, reference: Sequence[Config], steps: int) -> None:
        at = sorted({round(step) for step in np.linspace(0, steps - 1, _LOOKS)})
        names = sorted({name for config in reference for name in config})
        self._columns = [_Column(name, reference, at) for name in names]
        table = np.array([self._raw(config) for config in reference])
        self._mean, spread = table.mean(axis=0), table.std(axis=0)
        self._spread = np.where(spread > 1e-9, spread, 1.0)
        self._telling = _telling((table - self._mean) / self._spread)
        self._rows = dict(zip(reference, self._scaled(table), strict=True))

    def of(self, configs: Iterable[Config]) -> Numbers:
        """Return a row for each config."""
        rows = ((config, self._rows.get(config)) for config in configs)
        return np.array([self._scaled(self._raw(config)) if row is None else row for config, row in rows])

    def _scaled(self, numbers: Any) -> Numbers:
        scaled: Numbers = ((numbers - self._mean) / self._spread)[..., self._telling]
        return scaled

    def _raw(self, config: Config) -> list[float]:
        return [number for column in self._columns for number in column.of(config)]


def _telling(table: Numbers) -> list[int]:
    """Return the columns that vary, each once: a constant's mean says no more than its first value."""
    seen = {tuple(np.zeros(len(table)))}
    found = []
    for place, column in enumerate(np.round(table.T, 6) + 0.0):
        if tuple(column) not in seen:
            seen |= {tuple(column), tuple(-column + 0.0)}
            found.append(place)
    return found


class _Column:
    """One hyper-parameter."""

    def __init__(self, name: str, reference: Sequence[Config], at: Sequence[int]) -> None:
        self._name = name
        self._at = at
        self._known: dict[Schedule | None, list[float]] = {}
        self._looks: dict[Schedule, list[Any]] = {}
        schedules = {config[name] for config in reference if name in config}
        values = {value for schedule in schedules for value in self._look(schedule)}
        self._is_number = all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in values
        )
        self._words = [] if self._is_number else sorted(map(str, values))
        above = sorted(value for value in values if value > 0) if self._is_number else []
        self._is_wide = bool(above) and min(values) >= 0 and above[-1] > _WIDE * above[0]
        self._floor = above[0] / _WIDE if self._is_wide else 0.0

    def of(self, config: Config) -> list[float]:
        """Return the features of the hyper-parameter in a config."""
        schedule = config.get(self._name)
        if schedule not in self._known:
            self._known[schedule] = self._numbers(schedule)
        return self._known[schedule]

    def _look(self, schedule: Schedule) -> list[Any]:
        if schedule not in self._looks:
            self._looks[schedule] = [schedule.value(step) for step in self._at]
        return self._looks[schedule]

    def _numbers(self, schedule: Schedule | None) -> list[float]:
        if schedule is None:
            return [0.0] * (9 if self._is_number else 1 + 2 * len(self._words))
        values = self._look(schedule)
        if not self._is_number:
            ends = (str(values[0]), str(values[-1]))
            return [1.0, *(float(word == end) for word in self._words for end in ends)]
        numbers = np.array(values, dtype=float)
        top = float(numbers.max())
        high = np.flatnonzero(numbers >= 0.9 * top)
        return [
            1.0,
            *map(self._scale, (top, numbers[0], numbers[-1], numbers.mean())),
            float(np.mean([self._scale(number) for number in numbers])),
            high[0] / len(numbers),
            high[-1] / len(numbers),
            float(np.mean(numbers <= 0.5 * top)),
        ]

    def _scale(self, number: float) -> float:
        return math.log10(max(number, self._floor)) if self._is_wide else float(number)
