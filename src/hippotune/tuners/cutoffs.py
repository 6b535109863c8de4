"""The score that a trial needs at each rung to go on, from the scores that others had there."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Hashable

from hippotune.tuners.base import Trial


def cutoff(scores: list[float], reduction: float) -> float | None:
    """Return the score that the best 1/reduction of a rung have, by linear interpolation; None below two.

    The scores are in ascending order.
    """
    if len(scores) < 2:
        return None
    place = (len(scores) - 1) * (1 - 1 / reduction)
    below = math.floor(place)
    low, high = scores[below], scores[min(below + 1, len(scores) - 1)]
    if low == high or place == below:
        return low
    if math.isinf(low) or math.isinf(high):  # there is nothing between
        return high
    return low + (place - below) * (high - low)


class Cutoffs:
    """The rungs, with the scores that trials had when they first came to each.

    A state counts once, however many trials share it. Where trials do, one state takes several of them to the
    next rung: then as many states may go on as `bearable` says for the rung, if that is more than usual.
    """

    def __init__(
        self, steps: list[int], reduction: int, bearable: Callable[[int], float] = lambda rung: 0.0
    ) -> None:
        self._steps = steps
        self._reduction = reduction
        self._bearable = bearable
        self._scores: list[list[float]] = [[] for _ in steps]
        self._states: list[dict[Hashable, bool]] = [{} for _ in steps]
        self._records = [0 for _ in steps]
        self._frozen: dict[int, list[float]] = {}
        self.least: list[float | None] = [None for _ in steps]
        """The cutoff of every rung, as it is now."""

    def report(self, trial: Trial, step: int, score: float, state: Hashable = None) -> bool:
        """Take in a score; return whether the trial may go on, by all rungs that it has passed.

        Trials with the same `state`, where one is given, are at one and the same.
        """
        frozen = self._frozen.setdefault(trial.number, [])
        goes_on = self.may_go_on(trial)
        while len(frozen) < len(self._steps) and self._steps[len(frozen)] <= step:
            goes_on &= self._enter(len(frozen), score, trial if state is None else state)
            frozen.append(score)
        return goes_on

    def _enter(self, rung: int, score: float, state: Hashable) -> bool:
        """Record a state at a rung; return whether it went on when it was first there."""
        scores, states, least = self._scores[rung], self._states[rung], self.least[rung]
        self._records[rung] += 1
        if state not in states:
            states[state] = least is None or score >= least
            insort(scores, score)
        reduction: float = self._reduction
        if len(scores) < self._records[rung] and (bearable := self._bearable(rung)) > 0:
            reduction = max(min(reduction, len(scores) / bearable), 1.0)
        self.least[rung] = cutoff(scores, reduction)
        return states[state]

    def may_go_on(self, trial: Trial) -> bool:
        """Return whether a trial is at or above the cutoff at every rung that it has passed."""
        return all(
            least is None or score >= least
            for score, least in zip(self._frozen.get(trial.number, ()), self.least, strict=False)
        )

    def next_rung(self, step: int) -> int:
        """Return the first rung after a step; the last one where there is none."""
        return next((rung for rung in self._steps if rung > step), self._steps[-1])
