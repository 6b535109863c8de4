"""HyperSched (Liaw et al., 2019): the best trained model by a deadline.

Trials are compared at rungs, as in successive halving, but asynchronously and again and again: a trial pauses
when what it scored at any rung is below the cutoff there, and may go on when it is no longer. While there is
time to give a newcomer a fair chance, free workers start new trials; after that they go to the trials that
run, the best before all.

Without a deadline it does not read the clock, and decides the same when run again.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from hippotune import checks
from hippotune.scheduling.allocation import Allocation, Kind
from hippotune.sequences.config import Config
from hippotune.spaces.space import Space
from hippotune.tuners.base import Result, Trial, TrialGroup, Trials
from hippotune.tuners.cutoffs import Cutoffs
from hippotune.tuners.rung_tuner import RungTuner
from hippotune.tuners.space_tuner import free_workers

# A trial on several workers is asked for many steps at once: starting takes at most this part of their time.
_STARTUP_SHARE = 0.1


def fair_seconds(
    longest: float, startup: float, reduction: int, max_steps: int, step_seconds: float
) -> float:
    """Return the time that a newcomer needs for a fair chance against those that have trained longest."""
    return min((longest - startup) * reduction, max_steps * step_seconds)


class HyperSched(RungTuner):
    """Spends the time to a deadline on what can still win.

    Give the deadline to the study: ``study.tune(hippo.HyperSched(...), deadline=3600)``. Without one it is an
    asynchronous halving that starts all trials.

    Parameters
    ----------
    min_steps, max_steps, reduction
        Rungs are at ``min_steps · reduction**i``; no trial is trained further than `max_steps`.
    every : int, optional
        How many steps a trial trains from one report to the next; by default `min_steps`.
    allocation : "uniform", "top" or "softmax"
        How free workers are given to running trials, where the trainer can be trained by several: best
        first in turns, all to the best, or most to the best. A policy of the study (``width=``) goes first.
    max_width : int, optional
        How many workers one trial may have.
    rungs : "states" or "trials"
        Whether trials that have not parted yet count once at a rung, or each for itself.
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
        rungs: str = "states",
    ) -> None:
        self.every = min_steps if every is None else checks.whole("every", every)
        self.width = Allocation(allocation, max_width)
        super().__init__(space, metric, mode, min_steps, max_steps, reduction, trials, seed, rungs)

    async def run(self, trials: Trials) -> None:
        """Start, pause and go on until the time is up or nothing is left."""
        race = _Race(self, trials, iter(self.foreseen(trials, self.rung_steps)))
        while race.fill():
            race.take_in(await trials.next())


class _Race:
    """One run: who is trained, who waits, who has not started."""

    def __init__(self, tuner: HyperSched, trials: Trials, new: Iterator[Config]) -> None:
        self._tuner = tuner
        self._trials = trials
        self._new = new
        self._next = next(new, None)
        self._rungs = tuner.rung_steps
        self._cutoffs = Cutoffs(self._rungs, tuner.reduction, self._bearable)
        self._seconds = trials.timing().left
        self._waiting: dict[Trial, None] = {}
        self._reached: dict[Trial, int] = {}
        self._scores: dict[Trial, float] = {}
        self._finished = False
        # Of trials that are being trained: from when and where on. Of all: the time and the pace so far.
        self._began: dict[Trial, tuple[float, int]] = {}
        self._spent: dict[Trial, float] = {}
        self._pace: dict[Trial, float] = {}
        self._states: dict[Trial, Hashable] = {}
        # Where trials in one and the same state were asked to go.
        self._asked: dict[Hashable, int] = {}

    # What comes back.

    def take_in(self, result: Result) -> None:
        """Take in a result; its trial goes on, waits or is over."""
        trial, tuner = result.trial, self._tuner
        if result.final:
            self._stop_clock(result)
        score = tuner.score(result)
        if result.failed or result.step <= self._reached.get(trial, 0):
            return
        self._scores[trial], self._reached[trial] = score, result.step
        state = self._states[trial] = self._trials.state(trial, result.step)
        counted = state if tuner.rungs == "states" else None
        goes_on = self._cutoffs.report(trial, result.step, score, counted)
        self._finished |= result.step >= tuner.max_steps
        if not result.final or result.step >= tuner.max_steps or score == -math.inf:
            return
        self._waiting[trial] = None
        if goes_on:
            along = self._asked.get(state)
            if along is not None and self._trials.is_under_way(trial, along):
                self._submit([trial], along)
            elif free_workers(self._trials) > 0:
                self._ask(trial)

    def _stop_clock(self, result: Result) -> None:
        now = self._trials.timing().now
        began, step = self._began.pop(result.trial)
        self._spent[result.trial] = self._spent.get(result.trial, 0.0) + now - began
        if result.step > step and now > began:
            self._pace[result.trial] = (now - began) / (result.step - step)

    def _bearable(self, rung: int) -> float:
        """Return how many states can be brought from one rung to the next in an equal part of all the time.

        Successive halving spends as much between any two rungs. Nothing is said without a deadline.
        """
        timing = self._trials.timing()
        if math.isinf(self._seconds) or not timing.step:
            return 0.0
        ways = [end - begin for begin, end in pairwise([0, *self._rungs])]
        steps = self._seconds * self._trials.workers / timing.step / len(ways)
        return steps / ways[rung + 1] if rung + 1 < len(ways) else 0.0

    # What is asked for.

    def fill(self) -> bool:
        """Give free workers to trials that may go on, and to newcomers; return whether any is trained."""
        while free_workers(self._trials) > 0 and (who := self._choose()) is not None:
            self._ask(who)
        return self._trials.open > 0

    def _choose(self) -> Config | Trial | None:
        """Return who should have a free worker: the best that may go on; else a newcomer, if there is time.

        Else the workers are left to those that run, or to the best of those that wait, where none runs or
        those that run cannot use them all.
        """
        ready = [trial for trial in self._waiting if self._may_go_on(trial)]
        if ready:
            return self._best(ready)
        if self._next is not None and self._is_admitted(self._next):
            return self._next
        timing, running = self._trials.timing(), self._trials.under_way
        if math.isinf(timing.left) and (running or self._finished):
            return None
        if running * timing.widest >= self._trials.workers:
            return None
        return self._best(self._waiting) if self._waiting else None if running else self._next

    def _may_go_on(self, trial: Trial) -> bool:
        """Whether a trial's scores suffice, or another went on from the state that it is in."""
        is_followed = self._tuner.rungs == "states" and self._states[trial] in self._asked
        return is_followed or self._cutoffs.may_go_on(trial)

    def _best(self, trials: Iterable[Trial]) -> Trial:
        return max(trials, key=lambda trial: (self._scores[trial], -trial.number))

    def _ask(self, who: Config | Trial) -> None:
        """Ask for the next steps of a trial, and of all that are in the same state and stay so."""
        if isinstance(who, Config):
            self._next = next(self._new, None)
            self._submit([who], self._goal(0, None))
            return
        state = self._states[who]
        step = self._goal(self._reached[who], self._pace.get(who))
        self._submit([who], step)
        same = [
            trial
            for trial in self._waiting
            if self._states[trial] == state and self._trials.is_under_way(trial, step)
        ]
        if same:
            self._submit(same, step)
        self._asked[state] = step

    def _goal(self, reached: int, pace: float | None) -> int:
        """Return the step that a trial is asked for next: at its next report, but for a good reason.

        By the deadline it must be there. What runs on several workers has to be started every time; so that
        this does not take most of the time, it is asked for several reports at once, up to the next rung.
        """
        timing, tuner = self._trials.timing(), self._tuner
        steps = tuner.every
        if timing.step and math.isfinite(timing.left):
            pace = min(pace or timing.step, timing.step)
            if pace < timing.step * (1 - _STARTUP_SHARE):
                spell = timing.startup / _STARTUP_SHARE / pace
                steps = max(steps, min(math.ceil(spell), self._cutoffs.next_rung(reached) - reached))
            steps = max(1, min(steps, int(timing.left / pace)))
        return min(reached + steps, tuner.max_steps)

    def _submit(self, who: Sequence[Config | Trial], step: int) -> None:
        now = self._trials.timing().now
        for trial in self._trials.submit(TrialGroup.of(who, step, self._tuner.every)):
            self._waiting.pop(trial, None)
            self._began[trial] = (now, self._reached.get(trial, 0))
        self._trials.rate({trial: self._scores[trial] for trial in self._began if trial in self._scores})

    def _is_admitted(self, config: Config) -> bool:
        """Whether there is time for a new trial to catch up; steps trained already cost it nothing."""
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
