"""Proof leases: they repeat what was trained before, so that the two can be compared.

A proof lease promises nothing that a request waits for, its metrics answer no request, and nothing goes on
from the state that its worker is left with. One that is lost with its worker is repeated. A proof is decided
once, when all its runs have ended, and is a fact of the plan then. `Rehearsal`, `WidthProof` and `Audits` say
what to prove, and on which worker.
"""

from __future__ import annotations

from dataclasses import replace

from hippotune.engine.audits import Audits
from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.lease import Lease
from hippotune.engine.lease_updates import LeaseUpdates
from hippotune.engine.rehearsal import Rehearsal
from hippotune.engine.repeat import Repeat
from hippotune.engine.starting import first_orders, open_lease, send
from hippotune.engine.state import State
from hippotune.engine.width_proof import WidthProof
from hippotune.protocol.commands import DISK_FULL, Abort
from hippotune.protocol.events import (
    Event,
    LeaseFailed,
    LeaseFinished,
    LeaseStarted,
    MetricsReported,
    NumbersLogged,
    Progressed,
    StateFingerprinted,
)
from hippotune.protocol.proof import ProofPolicy


class Proofs:
    """Starts proof leases and takes in what becomes of them. `running` has those on their way, by number.

    `steps` counts the steps that were repeated; fingerprints in other leases took `fingerprint_seconds`.
    """

    def __init__(
        self, state: State, checkpoints: Checkpoints, updates: LeaseUpdates, policy: ProofPolicy | None
    ) -> None:
        self._state = state
        self._checkpoints = checkpoints
        self.rehearsal = Rehearsal(state, checkpoints, updates, policy)
        self.width = WidthProof(state, checkpoints, self.rehearsal, policy)
        self.audits = Audits(state, policy)
        self.running: dict[int, Repeat] = {}
        self.steps = 0
        self.fingerprint_seconds = 0.0

    @property
    def is_open(self) -> bool:
        """Whether something is still to be proved, so that results are provisional.

        No result depends on a width that is not proved.
        """
        running = any(repeat.owner is not self.width for repeat in self.running.values())
        return running or self.rehearsal.is_open or self.audits.is_open

    # Leases that train.

    def adopt(self, lease: Lease) -> None:
        """A lease starts to train something: it may be what others are compared with."""
        self.rehearsal.adopt(lease)
        self.audits.plan(lease)

    def plan(self) -> None:
        """The orders of some leases have changed: they may pass a branch now."""
        for lease in self._state.changed:
            if lease.state == "running" and not lease.proof:
                self.audits.plan(lease)

    def state_fingerprinted(self, event: StateFingerprinted) -> None:
        """A lease that trains has said what its state is."""
        lease = self._state.leases.expect(event.lease, event, "running")
        self.fingerprint_seconds += event.seconds
        self.rehearsal.fingerprinted(lease, event)
        self.width.fingerprinted(lease, event)
        self.audits.fingerprinted(lease, event)

    def measured(self, lease: Lease, event: MetricsReported) -> bool:
        """A lease that trains has metrics; return whether they are for a proof alone."""
        return self.rehearsal.measured(lease, event) or self.width.measured(lease, event)

    def ended(self, lease: Lease) -> None:
        """A lease that trained something is over, or lost."""
        self.rehearsal.ended(lease)
        self.width.ended(lease)
        self.audits.ended(lease)

    # Leases that prove.

    def start(self, urgent: bool) -> None:
        """Start urgent proofs, or, on workers that nothing else needs, all that can start."""
        while (found := self._next(urgent)) is not None:
            self._start(*found)

    def _next(self, urgent: bool) -> tuple[Repeat, int] | None:
        is_room = self._state.workers.slots_with_room > 0
        if is_room and (found := self.rehearsal.next(urgent)) is not None:
            return found
        if (found := self.width.next(urgent)) is not None:
            return found
        if not is_room or self.rehearsal.is_open or self._state.reserved:
            return None
        return self.audits.next(urgent)

    def _start(self, repeat: Repeat, worker: int) -> None:
        state = self._state
        lease = open_lease(state, repeat.study, worker, repeat.path, repeat.width, proof=True)
        lease.fingerprints, repeat.platform = set(repeat.fingerprints), lease.platform
        for step in repeat.saves:
            state.promises.saves.add(lease, step)
        self.running[lease.id] = repeat
        orders = replace(
            first_orders(state, lease),
            evaluations=repeat.evaluations,
            probe=repeat.probe,
            fresh=repeat.fresh,
            nudged=repeat.nudged,
        )
        send(state, lease, orders, f", to prove something: {repeat.run.name}")

    def takes(self, event: Event) -> bool:
        """Handle an event of a proof lease; False for other leases, and for saves, which are all alike."""
        number: int | None = getattr(event, "lease", None)
        if number is None or (repeat := self.running.get(number)) is None:
            return False
        lease = self._state.leases.expect(number, event, "running")
        match event:
            case LeaseStarted():
                lease.updated_at = self._state.now
                lease.startup = event.seconds if repeat.fresh else 0.0
            case Progressed():
                self.steps += event.steps
                lease.at, lease.updated_at = event.step, self._state.now
            case StateFingerprinted():
                repeat.fingerprinted(event)
            case MetricsReported():
                repeat.measured(event)
            case LeaseFinished():
                self._end(lease, event.step)
                repeat.owner.done(repeat)
            case LeaseFailed():
                self._end(lease, event.step - 1)
                for worker in event.replaced:
                    self._state.workers.remove(worker)
                if event.checkpoint_unreadable:
                    self._checkpoints.drop(lease.position(lease.start))
                    repeat.owner.lost(repeat, event.error)
                elif event.kind not in ("raised", "mismatch"):
                    repeat.owner.lost(repeat, event.error)
                    if event.kind == "disk full":
                        self._state.commands.append(Abort(f"{DISK_FULL}\n{event.error}"))
                else:
                    repeat.run.error = event.error
                    repeat.owner.done(repeat)
            case NumbersLogged():
                lease.logged.add(event, self._state.now)  # recorded no later than the checkpoint they lead to
            case _:
                return False
        return True

    def _end(self, lease: Lease, step: int) -> None:
        state = self._state
        lease.record(state.now, f"ended at {step}")
        lease.at = max(lease.at, step)
        state.facts += state.leases.record(lease, state.now)
        for worker in lease.workers:
            state.workers.finish(worker, None, saved=True)
        state.leases.release(lease, keep_saves_until=step)
        del self.running[lease.id]

    def lost(self, lease: Lease, reason: str) -> None:
        """A proof lease was lost with one of its workers."""
        repeat = self.running.pop(lease.id)
        repeat.owner.lost(repeat, reason)

    def worker_lost(self, worker: int) -> None:
        """A worker is gone, with everything that its process had in memory."""
        self.rehearsal.worker_lost(worker)
