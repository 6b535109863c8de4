"""Rungs: the step counts at which trials are compared, and trials in order of their scores there.

Order is total: a higher score comes first, and of equal scores the lower trial number. A trial without a
score (failed, or NaN) counts as the worst and never goes on.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort

from hippotune.tuners.base import Trial


def rung_steps(min_steps: int, max_steps: int, reduction: int) -> list[int]:
    """Return min_steps, min_steps·reduction, … as long as they are below max_steps, and max_steps."""
    steps = []
    step = min_steps
    while step < max_steps:
        steps.append(step)
        step *= reduction
    return [*steps, max_steps]


class Rung:
    """The trials that have a result at one rung, best first, and which of them wait there.

    Adding a trial and asking for the best one cost a binary search, so that rungs of 100,000 trials are
    cheap.
    """

    def __init__(self) -> None:
        self._ranked: list[tuple[float, int]] = []
        self._waiting: list[tuple[float, int]] = []
        self._trials: dict[int, Trial] = {}

    def __len__(self) -> int:
        return len(self._ranked)

    @property
    def scored(self) -> int:
        """The number of trials that have a score."""
        return len(self._trials)

    def add(self, trial: Trial, score: float) -> None:
        """Note a trial's score; minus infinity stands for none."""
        place = (-score, trial.number)
        insort(self._ranked, place)
        if score > -math.inf:
            insort(self._waiting, place)
            self._trials[trial.number] = trial

    def best_waiting(self) -> tuple[Trial, int] | None:
        """Return the best trial that has not gone on, and its rank in the whole rung (from 0)."""
        if not self._waiting:
            return None
        place = self._waiting[0]
        return self._trials[place[1]], bisect_left(self._ranked, place)

    def take_best(self) -> Trial:
        """Send the best waiting trial on."""
        return self._trials[self._waiting.pop(0)[1]]

    @property
    def gone_on(self) -> int:
        """How many trials went on."""
        return len(self._trials) - len(self._waiting)

    def ranking(self) -> list[int]:
        """Return the numbers of the trials with a score, best first."""
        return [number for negative, number in self._ranked if negative < math.inf]
