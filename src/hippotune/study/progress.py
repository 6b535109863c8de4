"""Takes snapshots of a tuning for views: from the caller's side, looking on the engine's own thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from hippotune.errors import NotExact
from hippotune.shell.loop_thread import PlanClosed
from hippotune.shell.pulse import Pulse
from hippotune.study.plan_loop import PlanLoop
from hippotune.study.report import best_result
from hippotune.study.tuning import Tuning
from hippotune.tuners.base import Mode, Result
from hippotune.view.snapshot import BestLine, Snapshot

# Counting steps walks every trial, and the best is one of all results: at most this part of the engine's time
# goes into both.
_SHARE_OF_TIME = 0.02


class OpenPlan(Protocol):
    """What is followed: a plan that is open, in this process or on a server."""

    @property
    def loop(self) -> PlanLoop:
        """What its tunings talk to."""

    def ask(self, question: Callable[[], Snapshot]) -> Snapshot:
        """Call a function on the loop's thread and wait for what it returns."""


class Progress:
    """Follows one tuning."""

    def __init__(self, study: str, metric: str, mode: Mode, runtime: OpenPlan) -> None:
        self._study = study
        self._metric = metric
        self._mode: Mode = mode
        self._runtime = runtime
        self._tuning: Tuning | None = None
        self._began = 0.0
        self._trained_before = 0
        self._worked_before = 0.0
        self._unique = 0
        self._found = 0
        self._best: Result | None = None
        self._counted_at = 0.0
        self._counting_took = 0.0

    def begin(self, tuning: Tuning) -> None:
        """The tuning has begun."""
        self._tuning = tuning
        readings = self._runtime.loop.readings
        self._began = readings.now()
        self._trained_before, self._worked_before, _ = readings.counters()

    def snapshot(self, last: bool = False) -> Snapshot | None:
        """Return this moment's snapshot; None before the tuning has begun, and after the plan was closed.

        Where there is much to count, some of it may be a few seconds old, but not in the `last` one.
        """
        if self._tuning is None:
            return None
        if last:
            self._counting_took = 0.0
        try:
            return self._runtime.ask(self._take)
        except PlanClosed:
            return None

    def _take(self) -> Snapshot:
        tuning = self._tuning
        assert tuning is not None
        pulse = self._look(tuning)
        trained = pulse.trained - self._trained_before
        best = None if isinstance(self._runtime.loop.error, NotExact) else self._best
        return Snapshot(
            study=self._study,
            metric=self._metric,
            mode=self._mode,
            trials=len(tuning.asked),
            requests_open=tuning.unanswered,
            requests_answered=tuning.answered,
            requests_failed=tuning.failed,
            requests_suspended=tuning.suspended,
            steps_requested=sum(tuning.asked.values()),
            steps_unique=self._unique,
            steps_trained=trained,
            steps_found=self._found,
            workers=pulse.workers,
            workers_expected=pulse.workers_expected,
            best=None
            if best is None or best.metrics is None
            else BestLine(
                best.trial.number, best.step, best.trial.config, best.metrics, is_proved=pulse.is_proved
            ),
            seconds=pulse.now - self._began,
            seconds_left=pulse.seconds_left(max(self._unique - self._found - trained, 0)),
            checkpoint_bytes=pulse.checkpoint_bytes,
            utilisation=self._utilisation(pulse),
            until_deadline=max(tuning.limits.until_deadline, 0.0),
            until_budget=max(tuning.limits.until_budget, 0.0),
        )

    def _utilisation(self, pulse: Pulse) -> float:
        """Return which part of the slots' time was at work since the tuning began."""
        worked = pulse.worker_seconds - self._worked_before + pulse.running_seconds
        available = (pulse.now - self._began) * self._runtime.loop.readings.workers
        return min(worked / available, 1.0) if available > 0 else 0.0

    def _look(self, tuning: Tuning) -> Pulse:
        """Return how training goes; count what all trials need, and what was there before; find the best."""
        readings, now = self._runtime.loop.readings, time.monotonic()
        if self._counting_took > _SHARE_OF_TIME * (now - self._counted_at):
            return readings.pulse(self._began, None)
        pulse = readings.pulse(self._began, tuning.asks())
        if pulse.unique is not None and pulse.left is not None:
            self._unique = pulse.unique
            self._found = max(pulse.unique - pulse.left - (pulse.trained - self._trained_before), 0)
        self._best = best_result(tuning.results, self._metric, self._mode)
        self._counted_at = time.monotonic()
        self._counting_took = self._counted_at - now
        return pulse
