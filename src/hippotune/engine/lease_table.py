"""All leases: on which nodes they run, how much time they have taken, and which studies pay for that."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Set
from fractions import Fraction

from hippotune.engine.lease import Lease
from hippotune.engine.promises import Promises
from hippotune.errors import IllegalTransition
from hippotune.plan.facts import Fact
from hippotune.plan.node import Node
from hippotune.protocol.events import Event
from hippotune.scheduling.fairness import NOTHING, Accounts, Rank
from hippotune.scheduling.profile import Profile
from hippotune.scheduling.width import WAITS

# How many ended leases are remembered, for messages about events that come too late.
_REMEMBERED = 16


class LeaseTable:
    """The leases by their numbers, from their start until their last save is over."""

    def __init__(self, promises: Promises) -> None:
        self.by_number: dict[int, Lease] = {}
        self.worker_seconds = 0.0
        self.proof_seconds = 0.0
        self.startup_seconds = 0.0
        self._promises = promises
        self._next_number = 0
        self._over: deque[Lease] = deque(maxlen=_REMEMBERED)
        self._on_node: dict[Node, dict[Lease, None]] = {}
        self.accounts: Accounts[str] = Accounts()

    def next_number(self) -> int:
        """Return a number for a lease."""
        self._next_number += 1
        return self._next_number - 1

    def open(self, lease: Lease) -> None:
        """A lease starts. A proof lease is listed on no node: it takes on no requests."""
        self.by_number[lease.id] = lease
        self._promises.open(lease)
        for node, _, _ in () if lease.proof else lease.path:
            self._on_node.setdefault(node, {})[lease] = None

    def release(self, lease: Lease, keep_saves_until: int | None) -> None:
        """A lease's workers are off it; saves up to a step may still be under way."""
        lease.state = "saving"
        lease.claim = WAITS
        for node, _, _ in () if lease.proof else lease.path:
            on_node = self._on_node[node]
            del on_node[lease]
            if not on_node:
                del self._on_node[node]
        self._promises.release(lease, keep_saves_until)
        self.forget_if_done(lease)

    def forget_if_done(self, lease: Lease) -> None:
        """A lease that is released and owes no save is over."""
        if lease.state == "saving" and not lease.saves:
            lease.state = "over"
            del self.by_number[lease.id]
            self._promises.close(lease)
            self._over.append(lease)

    def expect(self, number: int, event: Event, *states: str) -> Lease:
        """Return the lease that an event is about; raise where the event cannot be about it now."""
        lease = self.by_number.get(number)
        if lease is None:
            lease = next((each for each in self._over if each.id == number), None)
            if lease is None:
                raise IllegalTransition(f"{event} names lease {number}, which does not exist")
        if lease.state not in states:
            raise IllegalTransition(f"{event} cannot come now: {lease.history()}")
        return lease

    def record(self, lease: Lease, now: float) -> list[Fact]:
        """Add up the time that a lease took; return that, and the numbers that it has logged, as facts."""
        spent = (now - lease.began) * float(lease.width)
        if lease.proof:
            self.proof_seconds += spent - lease.startup
            self.startup_seconds += lease.startup
        else:
            self.worker_seconds += spent
        self.charge(lease, now)
        return [*lease.logged.release(lease.path, now), *lease.spans(now)]

    def running(self) -> list[Lease]:
        """Return the leases that have their workers."""
        return [lease for lease in self.by_number.values() if lease.state == "running"]

    def training(self) -> list[Lease]:
        """Return the running leases that train something new: all but the proofs."""
        return [lease for lease in self.running() if not lease.proof]

    def on(self, node: Node) -> Iterable[Lease]:
        """Return the running leases whose path leads along a node."""
        return self._on_node.get(node, ())

    def on_nodes(self) -> Iterable[tuple[Node, Iterable[Lease]]]:
        """Return all nodes with running leases on them, and those leases."""
        return self._on_node.items()

    # Who pays.

    def charge(self, lease: Lease, now: float, payers: Set[str] = frozenset()) -> None:
        """Charge a lease's time since the last charge to its payers; `payers` pay from now on."""
        if now > lease.paid_until:
            self.accounts.charge(lease.payers, _taken(lease, now))
        lease.payers, lease.paid_until = payers or lease.payers, now

    def ranks(self) -> Callable[[str], Rank]:
        """Return the key by which studies are put in order."""
        return self.accounts.ranks(self._slots_by_study())

    def in_the_way_of(self, study: str) -> Iterator[Lease]:
        """Yield the leases whose payers would come after a study if these leases were over."""
        slots = self._slots_by_study()
        known: dict[tuple[frozenset[str], Fraction], bool] = {}
        for lease in self.training():
            payers = frozenset(lease.payers)
            if study in payers:
                continue
            if (payers, lease.width) not in known:
                part = lease.width / len(payers)
                rank = self.accounts.ranks({**slots, **{each: slots[each] - part for each in payers}})
                known[payers, lease.width] = rank(study) < min(map(rank, payers))
            if known[payers, lease.width]:
                yield lease

    def _slots_by_study(self) -> dict[str, Fraction]:
        slots: dict[str, Fraction] = {}
        alike = Counter((frozenset(lease.payers), lease.width) for lease in self.running())
        for (payers, width), number in alike.items():
            for study in payers:
                slots[study] = slots.get(study, NOTHING) + number * width / len(payers)
        return slots

    def spent(self, study: str, now: float) -> float:
        """Return the slot-seconds that a study was charged, those of its running leases included."""
        running = sum(_taken(lease, now) / len(lease.payers) for lease in self._paid_by(study))
        return float(self.accounts.charged(study) + running)

    def to_spend(self, study: str, now: float, profile: Profile) -> float:
        """Return what a study's running leases will still charge it until they end, as far as known."""
        left = (
            lease.time_left(profile, now, lease.end) * float(lease.width) / len(lease.payers)
            for lease in self._paid_by(study)
        )
        return (profile.usual or 0.0) * sum(left)

    def _paid_by(self, study: str) -> Iterator[Lease]:
        return (lease for lease in self.running() if study in lease.payers)


def _taken(lease: Lease, now: float) -> Fraction:
    """Return the slot-seconds of a lease that are not charged yet."""
    return max(Fraction(now) - Fraction(lease.paid_until), NOTHING) * lease.width
