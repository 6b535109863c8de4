"""How long a tuning may go on: a deadline on the clock, a budget of worker time, or both.

What a tuning does not hear in time it does not need: when a limit is reached, its tuner is ended where it
waits, what is still open is withdrawn, and running leases stop at the end of their step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from numbers import Real

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
        hours = math.inf if budget is None else _number("budget", budget, "worker-hours", "0.5")
        return cls(
            seconds if seconds < math.inf else None,
            hours * _HOUR if hours < math.inf else None,
        )

    def after(self, seconds: float) -> Limits:
        """Return what is left when a while has gone by before anything could begin."""
        left = None if self.seconds is None else self.seconds - seconds
        return Limits(left, self.worker_seconds)

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self.seconds is not None or self.worker_seconds is not None


def _seconds(deadline: Deadline) -> float:
    if isinstance(deadline, timedelta):
        return _number("deadline", deadline.total_seconds(), "seconds", "3600")
    if isinstance(deadline, datetime):
        left = (deadline - datetime.now(deadline.tzinfo)).total_seconds()
        if left <= 0:
            raise InvalidInput(f"deadline is {deadline}, which is over; expected a moment to come")
        return left
    return _number("deadline", deadline, "seconds", "3600, a timedelta or a datetime")


def _number(name: str, value: object, unit: str, example: str) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not float(value) > 0 or math.isnan(float(value)):  # type: ignore[arg-type]
        raise InvalidInput(f"{name} is {value!r}; expected {unit} above 0, such as {example}")
    return float(value)  # type: ignore[arg-type]
