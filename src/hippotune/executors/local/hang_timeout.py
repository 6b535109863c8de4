"""How long a worker with something to do may be silent before it counts as hung."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from hippotune.protocol.events import Progressed

_LEAST_SECONDS = 600.0
_STEPS = 50


class HangTimeout:
    """The seconds that were given; without them, 50 usual steps, and 10 minutes at least.

    Before the first step is finished, it is not known how long one takes, and there is no limit.
    """

    def __init__(self, hang_after: float | None = None) -> None:
        self._given = hang_after
        self._paces: deque[float] = deque(maxlen=101)

    def observe(self, event: Progressed) -> None:
        """Take note of how long steps take."""
        self._paces.append(event.seconds / event.steps)

    @property
    def shortest(self) -> float:
        """The least that the limit can be, in seconds, whatever is observed."""
        return _LEAST_SECONDS if self._given is None else self._given

    def limit(self, closing: bool) -> float:
        """Return the longest silence in seconds. A worker that only has saves to finish gets less."""
        if self._given is not None or closing:
            return self.shortest
        return max(self.shortest, _STEPS * median(self._paces)) if self._paces else math.inf
