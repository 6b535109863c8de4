"""Which workers train a lease together: they are lost together.

Slots live in threads of their own. What one of them says of a lease, and that the lease is over for all of
its workers, must not overtake each other: both happen under the lock of `Bonds`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from hippotune.protocol.events import Event, LeaseFailed, LeaseFinished


class Bonds:
    """The leases that several workers are on at this moment, and those that came to a bad end."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._workers: dict[int, Sequence[int]] = {}
        self._broken: set[int] = set()

    def tie(self, lease: int, workers: Sequence[int]) -> None:
        """Several workers begin a lease."""
        with self.lock:
            self._workers[lease] = workers

    def may_say(self, event: Event) -> bool:
        """Return whether an event still counts; one that ends a lease frees all of its workers."""
        lease: int | None = getattr(event, "lease", None)
        if lease is None:
            return True
        if lease in self._broken:
            return False
        if isinstance(event, LeaseFinished | LeaseFailed):
            self._workers.pop(lease, None)
        return True

    def cut(self, worker: int) -> list[int]:
        """A worker is lost; return those that it was on a lease with, for whom nothing of it counts now."""
        with self.lock:
            for lease, workers in self._workers.items():
                if worker in workers:
                    del self._workers[lease]
                    self._broken.add(lease)
                    return [other for other in workers if other != worker]
        return []
