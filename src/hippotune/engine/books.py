"""The leases there are: on which nodes they are under way, and what they have taken and still take."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from hippotune.engine.lease import Lease
from hippotune.plan.facts import SpanRecorded
from hippotune.plan.node import Node
from hippotune.scheduling.profile import Profile
from hippotune.scheduling.width import WAITS


class Books:
    """The leases by their numbers, from their start until their last save is over."""

    def __init__(self) -> None:
        self.leases: dict[int, Lease] = {}
        self.worker_seconds = 0.0
        self.spans: list[SpanRecorded] = []
        self._on_node: dict[Node, dict[Lease, None]] = {}
        self._width: dict[str, Fraction] = {}
        self._spent: dict[str, float] = {}

    def open(self, lease: Lease) -> None:
        """A lease starts."""
        self.leases[lease.id] = lease
        self._width[lease.study] = self.width(lease.study) + lease.width
        for node, _, _ in lease.way:
            self._on_node.setdefault(node, {})[lease] = None

    def release(self, lease: Lease) -> None:
        """A lease's workers are off it; some of its saves may still be under way."""
        if lease.state == "running":
            lease.state = "saving"
            lease.claim = WAITS
            self._width[lease.study] -= lease.width
        for node, _, _ in lease.way:
            on_node = self._on_node.get(node, {})
            on_node.pop(lease, None)
            if not on_node:
                self._on_node.pop(node, None)

    def forget_if_done(self, lease: Lease) -> None:
        """A lease that is released and owes no save is over."""
        if lease.state == "saving" and not lease.saves:
            self.leases.pop(lease.id, None)

    def record(self, lease: Lease, now: float) -> list[SpanRecorded]:
        """Enter what a lease has taken; return it as facts."""
        spent = (now - lease.began) * float(lease.width)
        self.worker_seconds += spent
        self._spent[lease.study] = self._spent.get(lease.study, 0.0) + spent
        spans = lease.spans(now)
        self.spans += spans
        return spans

    def running(self) -> list[Lease]:
        """Return the leases that have their workers."""
        return [lease for lease in self.leases.values() if lease.state == "running"]

    def on(self, node: Node) -> Iterable[Lease]:
        """Return the running leases whose way leads along a node."""
        return self._on_node.get(node, ())

    def width(self, study: str) -> Fraction:
        """Return how many slots a study's running leases have."""
        return self._width.get(study, WAITS)

    def saves_to_come(self) -> int:
        """Return how many saves are owed."""
        return sum(len(lease.saves) for lease in self.leases.values())

    def spent(self, study: str, now: float) -> float:
        """Return the worker-seconds that a study has taken, those of its running leases included."""
        running = (
            (now - lease.began) * float(lease.width) for lease in self.running() if lease.study == study
        )
        return self._spent.get(study, 0.0) + sum(running)

    def to_spend(self, study: str, now: float, profile: Profile) -> float:
        """Return the worker-seconds that a study's running leases take to their ends, as far as known."""
        usual = profile.usual or 0.0
        left = (
            max((lease.end - lease.at) * usual / profile.speed(lease.width) - (now - lease.seen), 0.0)
            * float(lease.width)
            for lease in self.running()
            if lease.study == study
        )
        return sum(left)
