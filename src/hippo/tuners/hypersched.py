"""HyperSched (Liaw et al., 2019): the best trained model by a deadline.

Trials are compared at rungs, as in successive halving, but asynchronously and again and again: a trial pauses
when what it scored at any rung is below the cutoff there, and may go on when it is no longer. While there is
time to give a newcomer a fair chance, free workers start new trials; after that they go to the trials that
run, the best before all.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator, Mapping
from typing import Any

from hippo.scheduling.allocation import Allocation, Kind
from hippo.sequences.config import Config
from hippo.spaces.space import Space
from hippo.tuners.arguments import span, whole
from hippo.tuners.base import Result, Trial, TrialGroup, Trials
from hippo.tuners.rungs import rung_steps
from hippo.tuners.space_tuner import SpaceTuner, free_workers


def cutoff(scores: list[float], reduction: int) -> float | None:
    """Return the score that the best 1/reduction of a rung have, by linear interpolation; None below two."""
    if len(scores) < 2:
        return None
    place = (len(scores) - 1) * (1 - 1 / reduction)
    below = math.floor(place)
    low, high = scores[below], scores[min(below + 1, len(scores) - 1)]
    if math.isinf(low):
        return high if place > below else low
    return low + (place - below) * (high - low)


def fair_seconds(
    longest: float, startup: float, reduction: int, max_steps: int, step_seconds: float
) -> float:
    """Return the time that a newcomer needs for a fair chance against those that have trained longest."""
    return min((longest - startup) * reduction, max_steps * step_seconds)


class Cutoffs:
    """The rungs, with the scores that trials had when they first came to each."""

    def __init__(self, steps: list[int], reduction: int) -> None:
        self._steps = steps
        self._reduction = reduction
        self._scores: list[list[float]] = [[] for _ in steps]
        self._frozen: dict[Trial, list[float]] = {}

    def report(self, trial: Trial, step: int, score: float) -> bool:
        """Take in a score; return whether the trial may go on, by all rungs that it has passed."""
        frozen = self._frozen.setdefault(trial, [])
        goes_on = self.may_go_on(trial)
        while len(frozen) < len(self._steps) and self._steps[len(frozen)] <= step:
            scores = self._scores[len(frozen)]
            least = cutoff(scores, self._reduction)
            goes_on &= least is None or score >= least
            insort(scores, score)
            frozen.append(score)
        return goes_on

    def may_go_on(self, trial: Trial) -> bool:
        """Return whether a trial is at or above the cutoff at every rung that it has passed."""
        for score, scores in zip(self._frozen.get(trial, ()), self._scores, strict=False):
            least = cutoff(scores, self._reduction)
            if least is not None and score < least:
                return False
        return True


class HyperSched(SpaceTuner):
    """Spends the time to a deadline on what can still win.

    Give the deadline to the study: ``study.tune(hippo.HyperSched(...), deadline=3600)``. Without one it is an
    asynchronous halving that starts all trials.

    Parameters
    ----------
    min_steps, max_steps, reduction
        Rungs are at ``min_steps · reduction**i``; no trial is trained further than `max_steps`.
    every : int, optional
        How many steps a trial trains from one report to the next, where its state is kept; by default
        `min_steps`.
    allocation : "uniform", "top" or "softmax"
        How free workers are given to running trials, where the trainer can be trained by several: best
        first in turns, all to the best, or most to the best. A policy of the study (``width=``) goes first.
    max_width : int, optional
        How many workers one trial may have.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        min_steps: int,
        max_steps: int,
        reduction: int = 4,
        every: int | None = None,
        allocation: Kind = "top",
        max_width: int | None = None,
        trials: int | None = None,
        seed: int = 0,
    ) -> None:
        self.min_steps, _ = span(min_steps, max_steps)
        self.reduction = whole("reduction", reduction, least=2)
        self.every = min_steps if every is None else whole("every", every)
        self.width = Allocation(allocation, max_width)
        super().__init__(space, metric, mode, max_steps, trials, seed)

    async def run(self, trials: Trials) -> None:
        """Start, pause and go on until the time is up or nothing is left."""
        configs = self.configs()
        trials.foresee(configs, self.max_steps)
        race = _Race(self, trials, iter(configs))
        while race.fill():
            race.take_in(await trials.next())


class _Race:
    """One run: who runs, who is paused, who has not started."""

    def __init__(self, tuner: HyperSched, trials: Trials, new: Iterator[Config]) -> None:
        self._tuner = tuner
        self._trials = trials
        self._new = new
        self._next = next(new, None)
        steps = rung_steps(tuner.min_steps, tuner.max_steps, tuner.reduction)
        self._cutoffs = Cutoffs(list(steps), tuner.reduction)
        self._paused: dict[Trial, None] = {}
        self._reached: dict[Trial, int] = {}
        self._scores: dict[Trial, float] = {}
        self._began: dict[Trial, float] = {}
        self._spent: dict[Trial, float] = {}

    def fill(self) -> bool:
        """Give free workers to paused trials that may go on, and to newcomers; return whether any runs."""
        while free_workers(self._trials) > 0:
            ready = [trial for trial in self._paused if self._cutoffs.may_go_on(trial)]
            if ready:
                best = max(ready, key=lambda trial: (self._scores[trial], -trial.number))
                del self._paused[best]
                self._ask(best)
            elif self._next is not None and self._is_admitted(self._next):
                self._ask(self._next)
                self._next = next(self._new, None)
            else:
                break
        if not self._trials.open and self._paused:  # better the best of those that paused than nobody
            best = max(self._paused, key=lambda trial: (self._scores[trial], -trial.number))
            del self._paused[best]
            self._ask(best)
        elif not self._trials.open and self._next is not None:  # nobody is left
            self._ask(self._next)
            self._next = next(self._new, None)
        return self._trials.open > 0

    def take_in(self, result: Result) -> None:
        """Take in a result; its trial goes on, pauses or is over."""
        trial, tuner = result.trial, self._tuner
        now = self._trials.timing().now
        self._spent[trial] = self._spent.get(trial, 0.0) + now - self._began.pop(trial)
        if result.failed:
            return
        score = tuner.score(result)
        self._scores[trial], self._reached[trial] = score, result.step
        goes_on = self._cutoffs.report(trial, result.step, score)
        if result.step >= tuner.max_steps:
            return
        if goes_on:
            self._ask(trial)
        else:
            self._paused[trial] = None

    def _ask(self, who: Config | Trial) -> None:
        reached = self._reached.get(who, 0) if isinstance(who, Trial) else 0
        timing = self._trials.timing()
        steps = self._tuner.every
        if timing.step and math.isfinite(timing.left):
            steps = max(1, min(steps, int(timing.left / timing.step)))
        step = min(reached + steps, self._tuner.max_steps)
        (trial,) = self._trials.submit(TrialGroup(((who, step),)))
        self._began[trial] = timing.now
        if self._scores:
            self._trials.rate(self._scores)

    def _is_admitted(self, config: Config) -> bool:
        """Whether there is time for a newcomer to catch up, training only what nobody has trained."""
        timing, tuner = self._trials.timing(), self._tuner
        if not self._spent or timing.step is None or math.isinf(timing.left):
            return True
        fair = fair_seconds(
            max(self._spent.values()), timing.startup, tuner.reduction, tuner.max_steps, timing.step
        )
        fair_steps = min(math.ceil(fair / timing.step), tuner.max_steps)
        if fair_steps < 1:
            return True
        return timing.left >= fair * self._trials.unshared(config, fair_steps) / fair_steps
