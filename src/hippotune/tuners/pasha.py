"""PASHA (Bohdal et al., 2023): ASHA that trains further only while the ranking of the best changes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hippotune import checks
from hippotune.spaces.space import Space
from hippotune.tuners.asha import ASHA
from hippotune.tuners.base import Trial
from hippotune.tuners.ladder import Ladder
from hippotune.tuners.rungs import rung_steps

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

# Of the distances between trials that are told apart by noise alone, the share that counts as noise.
NOISE_PERCENTILE = 90


class PASHA(ASHA):
    """Progressive ASHA: begins with two rungs, and opens the next one when the ranking proves unstable.

    The top two rungs rank the trials that have reached the top. If a trial's place differs between them by
    more than noise, the next rung is opened, up to max_steps. Two trials differ by noise where their scores
    are closer than ε; ε is the 90th percentile of the distances, at the top rung, between trials whose
    curves have crossed at least twice. Curves are followed at every multiple of `every` steps.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        min_steps: int,
        max_steps: int,
        reduction: int = 4,
        trials: int | None = None,
        sampler: BaseSampler | None = None,
        seed: int = 0,
        every: int = 1,
    ) -> None:
        super().__init__(space, metric, mode, min_steps, max_steps, reduction, trials, sampler, seed)
        self.every = self._reports = checks.whole("every", every)

    def _ladder(self) -> Ladder:
        return ProgressiveLadder(rung_steps(self.min_steps, self.max_steps, self.reduction), self.reduction)


class ProgressiveLadder(Ladder):
    """A ladder whose top moves up by one rung whenever the top two rungs disagree."""

    def __init__(self, steps: Sequence[int], reduction: int) -> None:
        super().__init__(steps, reduction)
        self.top = min(1, self.top)
        self.epsilon = 0.0
        self._curves: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self._noise: list[float] = []

    def passing(self, trial: Trial, step: int, score: float) -> None:
        """Follow a trial's curve."""
        self._curves[trial.number][step] = score

    def report(self, trial: Trial, score: float) -> None:
        """Note a trial's score at its rung, and open the next rung if the top two now disagree."""
        place = self._at.get(trial.number, 0)
        super().report(trial, score)
        self._curves[trial.number][self.steps[place]] = score
        if place != self.top or place == 0 or score == -math.inf:
            return
        self._measure_noise(trial.number)
        if self.top + 1 < len(self.steps) and not self._stable():
            self.top += 1
            self._noise.clear()

    def _measure_noise(self, newcomer: int) -> None:
        at_top = self.steps[self.top]
        mine = self._curves[newcomer]
        for other in self.rungs[self.top].ranking():
            distance = abs(mine[at_top] - self._curves[other][at_top])
            if math.isfinite(distance) and crossed_twice(mine, self._curves[other]):
                self._noise.append(distance)
        if self._noise:
            self.epsilon = float(np.percentile(self._noise, NOISE_PERCENTILE))

    def _stable(self) -> bool:
        """Whether every trial at the top is where it was in the rung below, up to ε."""
        ranking = self.rungs[self.top].ranking()
        before = {number: self._curves[number][self.steps[self.top - 1]] for number in ranking}
        ranking_before = sorted(ranking, key=lambda number: (-before[number], number))
        return all(
            abs(before[now] - before[then]) <= self.epsilon
            for now, then in zip(ranking, ranking_before, strict=True)
        )


def crossed_twice(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Whether, going back from the last common step, the order of two curves changes and changes back."""
    signs = [_order(one[step], other[step]) for step in sorted(one.keys() & other.keys(), reverse=True)]
    if signs[0] == 0 or -signs[0] not in signs:
        return False
    return signs[0] in signs[signs.index(-signs[0]) :]


def _order(one: float, other: float) -> int:
    return (one > other) - (one < other)
