"""How often what must not change is looked at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_SHARE = 0.01
QUICK = 0.02


class Pace:
    """Says whether to look now. The first look is always due.

    After that, one is due as often as looking takes at most a hundredth of the time. One that is `urgent` is
    also due where a look takes at most 20 ms.
    """

    def __init__(self) -> None:
        self._looked = self._cost = 0.0

    def is_due(self, urgent: bool) -> bool:
        """Return whether to look now."""
        since = time.perf_counter() - self._looked
        return not self._looked or since >= self._cost / _SHARE or (urgent and self._cost <= QUICK)

    @contextmanager
    def look(self) -> Iterator[None]:
        """Note what the block costs, which looks: time of the processor, also on a busy machine."""
        began = time.thread_time()
        yield
        self._looked, self._cost = time.perf_counter(), time.thread_time() - began
