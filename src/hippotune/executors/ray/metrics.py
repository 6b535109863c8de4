"""What Ray's tools show of a study: steps, steps per second and stages, by study and trial.

They are the driver's, as it hears of everything; where a cluster collects no metrics they go nowhere.
"""

from __future__ import annotations

from hippotune.protocol.commands import RunLease
from hippotune.protocol.events import Event, LeaseFailed, LeaseFinished, Progressed

_TAGS = ("study", "trial", "worker")


class Metrics:
    """Follows leases from their start to their end."""

    def __init__(self) -> None:
        from ray.util import metrics

        self._steps = metrics.Counter("hippo_steps", "Steps that were trained", _TAGS)
        self._pace = metrics.Gauge("hippo_steps_per_second", "Steps per second of training", _TAGS)
        self._stages = metrics.Counter("hippo_stages", "Stages that were trained", _TAGS)
        self._running: dict[int, tuple[dict[str, str], list[int]]] = {}
        self._lease_of: dict[int, int] = {}

    def begin(self, lease: RunLease) -> None:
        """A lease starts; the lease that its worker had before is over."""
        self._running.pop(self._lease_of.get(lease.worker, lease.lease), None)
        self._lease_of[lease.worker] = lease.lease
        tags = {"study": lease.study, "trial": str(lease.trial), "worker": str(lease.worker)}
        self._running[lease.lease] = tags, [segment.end for segment in lease.segments]

    def observe(self, event: Event) -> None:
        """Take in what a worker says."""
        if not isinstance(event, Progressed | LeaseFinished | LeaseFailed):
            return
        if (running := self._running.get(event.lease)) is None:
            return
        tags, ends = running
        while ends and ends[0] <= event.step and not isinstance(event, LeaseFailed):
            del ends[0]
            self._stages.inc(1, tags)
        if isinstance(event, Progressed):
            self._steps.inc(event.steps, tags)
            if event.seconds:
                self._pace.set(event.steps / event.seconds, tags)
        else:
            self._pace.set(0, tags)
            del self._running[event.lease]
