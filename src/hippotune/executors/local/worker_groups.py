"""Which workers train a lease together: they are lost together.

Slots have threads of their own. An event of a lease, and the end of the lease for all its workers, must not
overtake each other: both happen under the lock of `WorkerGroups`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from hippotune.protocol.events import Event, LeaseFailed, LeaseFinished


class WorkerGroups:
    """The leases that several workers are on, and those that lost a worker while others are still to end."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._workers: dict[int, Sequence[int]] = {}
        self._broken: dict[int, set[int]] = {}

    def form(self, lease: int, workers: Sequence[int]) -> None:
        """Several workers begin a lease."""
        with self.lock:
            self._workers[lease] = workers

    def counts(self, event: Event) -> bool:
        """Return whether an event still counts; one that ends a lease frees all of its workers."""
        lease: int | None = getattr(event, "lease", None)
        if lease is None:
            return True
        if lease in self._broken:
            return False
        if isinstance(event, LeaseFinished | LeaseFailed):
            self._workers.pop(lease, None)
        return True

    def lose(self, worker: int) -> list[int]:
        """A worker is lost; return the others on its lease, which are to end too."""
        with self.lock:
            for lease, left in list(self._broken.items()):
                left.discard(worker)
                if not left:
                    del self._broken[lease]
            for lease, workers in self._workers.items():
                if worker in workers:
                    del self._workers[lease]
                    self._broken[lease] = {other for other in workers if other != worker}
                    return [other for other in workers if other != worker]
        return []
