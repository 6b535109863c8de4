"""The limits of studies: a deadline, and a budget of worker-seconds.

Nothing is started whose result a study would not get within both. Leases that run have the first claim to the
budget: nothing is started that would leave them too little to come to their ends.
"""

from __future__ import annotations

import math
from collections.abc import ItemsView
from typing import Literal

Limit = Literal["deadline", "budget"]

# A limit that is exceeded by rounding only is met.
_ROUNDING = 1e-9


class Deadlines:
    """The limits of studies that have any."""

    def __init__(self) -> None:
        self._limits: dict[str, tuple[float, float]] = {}

    def set(self, study: str, at: float | None, worker_seconds: float | None) -> None:
        """Limit a study; with neither a time nor worker-seconds it is free again."""
        if at is None and worker_seconds is None:
            self._limits.pop(study, None)
        else:
            self._limits[study] = (
                math.inf if at is None else at,
                math.inf if worker_seconds is None else worker_seconds,
            )

    def __contains__(self, study: str) -> bool:
        return study in self._limits

    def __bool__(self) -> bool:
        return bool(self._limits)

    def at(self, study: str) -> float:
        """Return when the deadline of a study is; infinite where it has none."""
        return self._limits.get(study, (math.inf, math.inf))[0]

    def items(self) -> ItemsView[str, tuple[float, float]]:
        """Return the studies that are limited: until when, and to how many worker-seconds; or infinite."""
        return self._limits.items()

    def obstacle(self, study: str, heard: float, spent: float) -> Limit | None:
        """Return the limit that makes an answer late, if any, given its time and the worker-seconds used."""
        at, worker_seconds = self._limits.get(study, (math.inf, math.inf))
        if heard > at + _ROUNDING * abs(at):
            return "deadline"
        return "budget" if spent > worker_seconds * (1 + _ROUNDING) else None
