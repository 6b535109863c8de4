"""PASHA (Bohdal et al., 2023): ASHA that trains further only while the ranking of the best changes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hippotune import checks
from hippotune.spaces.space import Space
from hippotune.tuners.asha import ASHA
from hippotune.tuners.base import Trial
from hippotune.tuners.ladder import Ladder
from hippotune.tuners.rungs import Standing

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
        rungs: str = "states",
    ) -> None:
        super().__init__(space, metric, mode, min_steps, max_steps, reduction, trials, sampler, seed, rungs)
        self.every = self._reports = checks.whole("every", every)

    def _ladder(self) -> Ladder:
        return ProgressiveLadder(self.rung_steps, self.reduction, self.seed)


class ProgressiveLadder(Ladder):
    """A ladder whose top moves up by one rung whenever the top two rungs disagree."""

    def __init__(self, steps: Sequence[int], reduction: int, seed: int = 0) -> None:
        super().__init__(steps, reduction, seed)
        self.top = min(1, self.top)
        self.epsilon = 0.0
        self._curves: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self._noise: list[float] = []

    def passing(self, trial: Trial, step: int, score: float) -> None:
        """Follow a trial's curve."""
        self._curves[trial.number][step] = score

    def report(self, trial: Trial, score: float, state: Hashable) -> Standing:
        """Note a trial's score at its rung, and open the next rung if the top two now disagree."""
        at = self._at.get(trial.number, 0)
        place = super().report(trial, score, state)
        self._curves[trial.number][self.steps[at]] = score
        if at == self.top and at > 0 and score > -math.inf and len(place.trials) == 1:
            self._compare(trial.number)
        return place

    def _compare(self, newcomer: int) -> None:
        """Compare the top two rungs, now that a state has come to the top."""
        self._measure_noise(newcomer)
        if self.top + 1 < len(self.steps) and not self._stable():
            self.top += 1
            self._noise.clear()

    def _measure_noise(self, newcomer: int) -> None:
        at_top = self.steps[self.top]
        mine = self._curves[newcomer]
        for other in self._ranking():
            distance = abs(mine[at_top] - self._curves[other][at_top])
            if math.isfinite(distance) and crossed_twice(mine, self._curves[other]):
                self._noise.append(distance)
        if self._noise:
            self.epsilon = float(np.percentile(self._noise, NOISE_PERCENTILE))

    def _ranking(self) -> list[int]:
        """Return a trial of each state at the top, best first."""
        return [trial.number for trial in self.rungs[self.top].ranking()]

    def _stable(self) -> bool:
        """Whether every state at the top is where it was in the rung below, up to ε."""
        ranking = self._ranking()
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
