"""How long a tuning may go on: a deadline on the clock, a budget of worker time, or both.

When a limit is reached, the tuner ends where it waits, open requests are withdrawn, and running leases stop
at the end of their step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from hippotune import checks
from hippotune.errors import InvalidInput

Deadline = float | timedelta | datetime

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds from the start of a tuning, and worker-seconds; None stands for no limit."""

    seconds: float | None = None
    worker_seconds: float | None = None

    @classmethod
    def of(cls, deadline: Deadline | None, budget: float | None) -> Limits:
        """Make limits of a deadline (seconds, a timedelta or a moment) and a budget in worker-hours."""
        seconds = math.inf if deadline is None else _seconds(deadline)
        hours = math.inf if budget is None else _number("budget", budget, "worker-hours")
        return cls(
            seconds if seconds < math.inf else None,
            hours * _HOUR if hours < math.inf else None,
        )

    def after(self, seconds: float) -> Limits:
        """Return what is left after waiting for the start."""
        left = None if self.seconds is None else self.seconds - seconds
        return Limits(left, self.worker_seconds)

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self.seconds is not None or self.worker_seconds is not None


def _seconds(deadline: Deadline) -> float:
    if isinstance(deadline, timedelta):
        return _number("deadline", deadline.total_seconds(), "seconds")
    if isinstance(deadline, datetime):
        left = (deadline - datetime.now(deadline.tzinfo)).total_seconds()
        if left <= 0:
            raise InvalidInput(f"deadline is {deadline}, which has passed; expected a time in the future")
        return left
    return _number("deadline", deadline, "a timedelta, a datetime or seconds")


def _number(name: str, value: object, what: str) -> float:
    return float(checks.number(name, value, above=0, infinite=True, what=what))
