"""How long a worker with something to do may be silent before it counts as hung."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from hippotune.protocol.events import Progressed

_LEAST_SECONDS = 600.0
_STEPS = 50


class Patience:
    """So many seconds as told, or else by what steps have taken: 50 of the usual ones, 10 minutes at least.

    Until a step has been finished, nothing is known of how long one may take, and nobody is impatient.
    """

    def __init__(self, hang_after: float | None = None) -> None:
        self._told = hang_after
        self._paces: deque[float] = deque(maxlen=101)

    def observe(self, event: Progressed) -> None:
        """Take note of how long steps take."""
        self._paces.append(event.seconds / event.steps)

    @property
    def shortest(self) -> float:
        """The limit in seconds, whatever will be observed, is not below this."""
        return _LEAST_SECONDS if self._told is None else self._told

    def limit(self, closing: bool) -> float:
        """Return the seconds of silence to put up with. A worker that only has saves to finish gets less."""
        if self._told is not None or closing:
            return self.shortest
        return max(self.shortest, _STEPS * median(self._paces)) if self._paces else math.inf
