"""Handles what workers report of their leases.

running ──────────▶ saving ──────────▶ over
│  finished, failed   all saves are in
└── lost with its worker: all its promises are open again
"""

from __future__ import annotations

from dataclasses import dataclass

from hippotune.engine.blame import Blame
from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.interim import Interim
from hippotune.engine.lease import Lease
from hippotune.engine.proofs import Proofs
from hippotune.engine.request_failures import RequestFailures
from hippotune.engine.requests import RequestEvents
from hippotune.engine.state import State
from hippotune.errors import IllegalTransition
from hippotune.plan.facts import Position
from hippotune.protocol.commands import DISK_FULL, Abort, Note
from hippotune.protocol.events import (
    LeaseFailed,
    LeaseFinished,
    LeaseStarted,
    MetricsReported,
    NumbersLogged,
    Progressed,
    StepsMissed,
)


@dataclass(eq=False, repr=False)
class LeaseEvents:
    """Handles the events of leases."""

    _state: State
    _requests: RequestEvents
    _failures: RequestFailures
    _checkpoints: Checkpoints
    _proofs: Proofs
    _blame: Blame
    _interim: Interim

    # On the way.

    def lease_started(self, event: LeaseStarted) -> None:
        """The worker holds the state that the lease starts from."""
        lease = self._state.leases.expect(event.lease, event, "running")
        lease.record(self._state.now, f"started, loaded in {event.seconds:.3f} s")
        lease.updated_at = self._state.now
        if lease.loads or lease.peers:
            self._state.profile.observe_start(event.seconds)

    def progressed(self, event: Progressed) -> None:
        """Steps were trained."""
        state = self._state
        lease = state.leases.expect(event.lease, event, "running")
        if event.step < lease.at:
            raise IllegalTransition(f"{event} goes back: {lease.history()}")
        state.probed = True
        state.trained += event.steps
        lease.at, lease.updated_at = event.step, state.now
        node = lease.node_at(event.step)
        lease.progressed(node, event.steps, event.seconds)
        if state.profile.observe(node, event.steps, event.seconds, lease.width):
            state.frontier.paced(node)
        self._interim.offer(lease)

    def numbers_logged(self, event: NumbersLogged) -> None:
        """Training has logged numbers: they are recorded a second's worth at a time."""
        lease = self._state.leases.expect(event.lease, event, "running")
        if lease.logged.add(event, self._state.now):
            self._state.facts += lease.logged.release(lease.path, self._state.now)

    def metrics_reported(self, event: MetricsReported) -> None:
        """There are metrics at a step."""
        state = self._state
        lease = state.leases.expect(event.lease, event, "running")
        state.facts += lease.logged.release(lease.path, state.now)
        lease.record(state.now, f"metrics at {event.step}")
        lease.at = max(lease.at, event.step)
        node = lease.node_at(event.step)
        is_for_proof = self._proofs.measured(lease, event)
        state.promises.evaluations.discard(lease, event.step)
        if not event.metrics:
            return
        if event.step not in node.metrics and not is_for_proof:
            state.facts.append(state.plan.measure(Position(node.id, event.step), event.metrics, state.now))
        self._failures.refuse_lacking(event.metrics)
        self._requests.measured(node, event.step)

    def steps_missed(self, event: StepsMissed) -> None:
        """Orders came too late: what they asked for is open again."""
        state = self._state
        if event.lease not in state.leases.by_number:
            return  # the update crossed the end of its lease, which owes nothing any more
        lease = state.leases.expect(event.lease, event, "running", "saving")
        lease.record(
            state.now, f"missed metrics at {sorted(event.evaluations)}, saves at {sorted(event.saves)}"
        )
        for step in sorted(event.evaluations):
            state.promises.evaluations.discard(lease, step)
        for step in sorted(event.saves):
            state.promises.break_save(lease, step)
        state.leases.forget_if_done(lease)

    # Ends.

    def lease_finished(self, event: LeaseFinished) -> None:
        """The worker is idle and holds the state at the end of the lease, which it saves."""
        state = self._state
        lease = state.leases.expect(event.lease, event, "running")
        lease.record(state.now, f"finished at {event.step}")
        lease.at = event.step
        state.facts += state.leases.record(lease, state.now)
        if lease.start < event.step and event.step not in lease.settled:
            if lease.cut and event.step not in lease.saves:
                lease.cut_at = event.step
            state.promises.saves.add(lease, event.step)
        position = lease.position(event.step)
        saved = event.step == 0 or event.step in state.plan[position.node].checkpoints
        state.workers.finish(lease.worker, position, saved)
        for peer in lease.peers:
            state.workers.finish(peer, None, saved=True)
        if lease.claim:
            state.claims[position] = lease.claim
        state.leases.release(lease, keep_saves_until=event.step)
        self._proofs.ended(lease)
        if not lease.saves:
            self._blame.got_on(lease)

    def lease_failed(self, event: LeaseFailed) -> None:
        """The user's code raised, a checkpoint could not be read, or a resource failed."""
        state = self._state
        lease = state.leases.expect(event.lease, event, "running")
        lease.record(state.now, f"failed in {event.phase} at {event.step}")
        state.facts += state.leases.record(lease, state.now)
        stage = self._blame.stage_of(lease)
        is_evaluation = event.phase == "evaluate" and event.step in lease.evaluations
        for worker in lease.workers:
            if worker in event.replaced:
                state.workers.remove(worker)
            else:
                state.workers.finish(worker, None, saved=True)
        state.leases.release(lease, keep_saves_until=event.step - 1)
        self._proofs.ended(lease)
        if event.kind == "out of memory" and lease.width < 1:
            self.keep_apart(lease)
        elif event.kind == "mismatch":
            self._proofs.width.refute(lease, event)
        elif event.kind == "disk full":
            state.commands.append(Abort(f"{DISK_FULL}\n{event.error}"))
        elif event.checkpoint_unreadable:
            state.commands.append(Note(f"{event.error}; the steps that depend on it are trained again"))
            self._checkpoints.drop(lease.position(lease.start))
            self._blame.lose(stage, "transient", event.error, lease.worker)
        elif event.kind != "raised":
            self._blame.lose(stage, event.kind, event.error, lease.worker)
        elif event.phase in ("prepare", "build"):
            state.commands.append(Abort(event.error))
        elif event.phase == "contract":
            self._failures.refuse_at_fault(lease, event)
        elif is_evaluation:
            self._failures.cannot_measure(lease.node_at(event.step), event.step, event.error)
        else:
            step = event.step
            if event.phase in ("load", "setup") and step == lease.start < lease.end:
                step += 1  # others who start there find out for themselves
            self._failures.fail(lease.node_at(step), step, event.error)

    def keep_apart(self, lease: Lease) -> None:
        """A failure that may be for lack of memory: do not pack this training with others any more."""
        if self._state.allocator is not None and lease.width < 1:
            self._state.allocator.keep_apart(lease.path[-1][0])
