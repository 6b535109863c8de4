"""Checkpoints of leases: saved, or not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hippotune.engine.blame import Blame
from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.interim import Interim
from hippotune.engine.lease import Lease
from hippotune.engine.lease_updates import LeaseUpdates
from hippotune.engine.request_failures import RequestFailures
from hippotune.engine.requests import RequestEvents
from hippotune.engine.state import State
from hippotune.protocol.commands import DISK_FULL, Abort, Note
from hippotune.protocol.events import CheckpointSaved, SaveFailed


@dataclass(eq=False, repr=False)
class SaveEvents:
    """Handles the events of saves."""

    _state: State
    _requests: RequestEvents
    _failures: RequestFailures
    _checkpoints: Checkpoints
    _updates: LeaseUpdates
    _blame: Blame
    _interim: Interim

    def checkpoint_saved(self, event: CheckpointSaved) -> None:
        """A checkpoint is durable: what waited for it can start."""
        state = self._state
        lease = state.leases.expect(event.lease, event, "running", "saving")
        lease.record(state.now, f"saved at {event.step}")
        state.facts += lease.logged.release(lease.path, state.now)
        lease.settled.add(event.step)
        position = lease.position(event.step)
        node = state.plan[position.node]
        checkpoint = replace(self._interim.saved(lease, event), platform=lease.platform)
        self._checkpoints.keep(position, checkpoint)
        self._blame.got_on(lease)
        state.workers.states.saved(position)
        self._requests.saved(state.promises.kept_save(lease, event.step), node, event.step)
        state.leases.forget_if_done(lease)
        was_guess = state.eviction.is_guess
        state.eviction.kept(position)
        self._checkpoints.evict()
        if was_guess:
            self._updates.use_room()

    def save_failed(self, event: SaveFailed) -> None:
        """A checkpoint was not written: the disk is full, it may work later, or it cannot be saved at all."""
        state = self._state
        lease = state.leases.expect(event.lease, event, "running", "saving")
        lease.record(state.now, f"save failed at {event.step}: {event.error}")
        if event.interim and event.step not in lease.saves:
            told = event.error.strip().splitlines()[-1]
            state.commands.append(
                Note(f"an interim checkpoint could not be saved ({told}); training goes on")
            )
            return
        stage = self._blame.stage_of(lease, event.step)
        lease.settled.add(event.step)
        state.promises.break_save(lease, event.step)
        state.leases.forget_if_done(lease)
        error = f"the checkpoint at step {event.step} could not be saved"
        if event.kind == "disk full":
            state.commands.append(Abort(f"{error}: {DISK_FULL}\n{event.error}", disk_full=True))
        elif event.kind == "raised":
            self._cannot_be_saved(lease, event.step, f"{error}: {event.error}")
        else:
            self._blame.lose(stage, event.kind, f"{error}: {event.error}", lease.worker)

    def _cannot_be_saved(self, lease: Lease, step: int, error: str) -> None:
        """Fail the trials that have to go on from a state; its metrics stay."""
        node = lease.node_at(step)
        told = error.strip().splitlines()[-1]
        self._state.commands.append(Note(f"a trial cannot go on, because its state cannot be saved: {told}"))
        self._failures.fail(node, step + (step in node.metrics), error, lease)
        if lease.state == "running":
            self._updates.shorten(lease)
