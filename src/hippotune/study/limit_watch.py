"""Ends a tuning when its deadline or budget is reached, or when too little is left to start anything."""

from __future__ import annotations

import math
from collections.abc import Callable

from hippotune.engine.deadlines import Limit
from hippotune.protocol.events import DeadlineSet
from hippotune.study.limits import Limits
from hippotune.study.plan_loop import PlanLoop

# A limit that is nearer than this is reached.
_MOMENT = 1e-3
# A budget is looked at again after such a part of a step at the earliest: what runs ends its step anyway.
_PART = 0.1


class LimitWatch:
    """Watches the limits of one tuning, from when it is made.

    It calls `end` once, when a limit is reached; `is_idle` says whether the tuner waits with nothing to hear.
    """

    def __init__(
        self, limits: Limits, loop: PlanLoop, study: str, is_idle: Callable[[], bool], end: Callable[[], None]
    ) -> None:
        self.ended_by: Limit | None = None
        self._limits = limits
        self._loop = loop
        self._study = study
        self._is_idle = is_idle
        self._end = end
        self._began = loop.readings.now()
        self._spent = loop.readings.spent(study)
        self._over = False

    def start(self) -> None:
        """Tell the engine of the limits, and watch them."""
        if self._limits.any:
            seconds, worker_seconds = self._limits.seconds, self._limits.worker_seconds
            at = None if seconds is None else self._began + seconds
            spend = None if worker_seconds is None else self._spent + worker_seconds
            self._loop.handle(DeadlineSet(self._study, at, spend))
            self._loop.on_idle(self.check_when_idle)
            self._look()

    def stop(self) -> None:
        """Watch no more: the tuner has ended."""
        self._over = True
        if self._limits.any:
            self._loop.off_idle(self.check_when_idle)
            self._loop.handle(DeadlineSet(self._study))

    def check_when_idle(self) -> None:
        """Where nothing runs and too little is left to start anything, there is nothing to wait for."""
        if self._limits.any and self._is_idle():
            obstacle = self._loop.readings.out_of(self._study)
            if obstacle is not None:
                self._reached(obstacle)

    @property
    def until_deadline(self) -> float:
        """The seconds until the deadline; infinite where there is none."""
        seconds = self._limits.seconds
        return math.inf if seconds is None else self._began + seconds - self._loop.readings.now()

    @property
    def until_budget(self) -> float:
        """The seconds that the budget lasts at least: as long as if all workers were busy."""
        if self._limits.worker_seconds is None:
            return math.inf
        spent = self._loop.readings.spent(self._study) - self._spent
        return (self._limits.worker_seconds - spent) / max(self._loop.readings.workers, 1)

    def _look(self) -> None:
        """See whether a limit is reached; if not, look again when it may be."""
        if self._over or self.ended_by is not None:
            return
        until_deadline, until_budget = self.until_deadline, self.until_budget
        if until_deadline <= _MOMENT:
            self._reached("deadline")
        elif until_budget <= _MOMENT:
            self._reached("budget")
        else:
            self.check_when_idle()
            least = _PART * (self._loop.readings.pace().step or 0.0)
            wait = min(until_deadline, max(until_budget, least))
            self._loop.alarm(self._loop.readings.now() + wait, self._look)

    def _reached(self, limit: Limit) -> None:
        self.ended_by = limit
        self._end()
