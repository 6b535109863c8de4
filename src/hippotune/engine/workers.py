"""Handles workers that come and go, and the leases that they were on."""

from __future__ import annotations

from dataclasses import dataclass, field

from hippotune.engine.blame import Blame
from hippotune.engine.lease import Lease
from hippotune.engine.lease_updates import LeaseUpdates
from hippotune.engine.leases import LeaseEvents
from hippotune.engine.proofs import Proofs
from hippotune.engine.state import State
from hippotune.protocol.commands import Note
from hippotune.protocol.events import (
    Event,
    LeaseFailed,
    LeaseFinished,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerNoted,
)


@dataclass(slots=True)
class BrokenLease:
    """A lease that has lost one of its workers: the others, still `busy` with it, will be lost too.

    Further events of its `leader` about it are ignored; None where the leader is lost.
    """

    leader: int | None
    busy: set[int]


@dataclass(eq=False, repr=False)
class WorkerEvents:
    """Handles the events of workers. `broken` are leases with several workers that have lost one."""

    _state: State
    _leases: LeaseEvents
    _updates: LeaseUpdates
    _proofs: Proofs
    _blame: Blame
    broken: dict[int, BrokenLease] = field(default_factory=dict)

    def worker_joined(self, event: WorkerJoined) -> None:
        """A worker is up."""
        slot = event.worker if event.slot is None else event.slot
        self._state.workers.join(event.worker, slot, event.platform, event.host, event.kind)

    def worker_leaving(self, event: WorkerLeaving) -> None:
        """A worker is to go: it gets nothing more, and what it trains stops at the end of its step."""
        state = self._state
        state.workers.release(event.worker)
        self._proofs.worker_lost(event.worker)
        for lease in state.leases.training():  # a proof is a step long
            if event.worker in lease.workers:
                lease.record(state.now, f"worker {event.worker} is leaving")
                lease.stopping = True
                self._updates.stop_at(lease, max(lease.at, lease.start + 1))

    def worker_noted(self, event: WorkerNoted) -> None:
        """A worker has something to say to a person."""
        self._state.commands.append(Note(event.text))

    def worker_lost(self, event: WorkerLost) -> None:
        """A worker is gone, with the lease that it ran and the saves that it had begun."""
        state = self._state
        state.workers.remove(event.worker)
        self._proofs.worker_lost(event.worker)
        for number, broken in list(self.broken.items()):
            broken.busy.discard(event.worker)
            if broken.leader == event.worker:
                broken.leader = None
            if broken.leader is None and not broken.busy:
                del self.broken[number]
        leases = [each for each in state.leases.by_number.values() if event.worker in each.workers]
        running = [lease for lease in leases if lease.state == "running"]
        for lease in leases:
            lease.record(state.now, f"worker {event.worker} lost: {event.reason}")
            if lease.state == "running":
                self._lose(lease, event)
            elif event.worker == lease.worker:  # saves are the leader's, and outlive the loss of a peer
                stage = None if running else self._blame.stage_of(lease, min(lease.saves))
                state.promises.release(lease, keep_saves_until=None)
                state.leases.forget_if_done(lease)
                self._blame.lose(stage, event.kind, event.reason, event.worker)

    def _lose(self, lease: Lease, event: WorkerLost) -> None:
        """A running lease has lost a worker."""
        state = self._state
        if others := {worker for worker in lease.workers if worker != event.worker}:
            leader = None if event.worker == lease.worker else lease.worker
            self.broken[lease.id] = BrokenLease(leader, others)
        stage = self._blame.stage_of(lease)
        state.facts += state.leases.record(lease, state.now)
        state.leases.release(lease, keep_saves_until=None)
        if lease.proof:
            self._proofs.lost(lease, event.reason)
            return
        self._proofs.ended(lease)
        self._leases.keep_apart(lease)
        self._blame.lose(stage, event.kind, event.reason, event.worker)

    def is_broken(self, event: Event) -> bool:
        """Whether an event is about a broken lease. Its end frees the workers that it has left."""
        number: int | None = getattr(event, "lease", None)
        if number is None or number not in self.broken:
            return False
        if isinstance(event, LeaseFinished | LeaseFailed):  # the loss crossed its end
            for worker in self.broken[number].busy:
                self._state.workers.finish(worker, None, saved=True)
            self.broken[number].busy.clear()
        return True
