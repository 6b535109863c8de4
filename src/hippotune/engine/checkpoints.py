"""Which checkpoints stay, and whether there is room for more."""

from __future__ import annotations

from dataclasses import replace

from hippotune.engine.state import State
from hippotune.plan.facts import Checkpoint, Position
from hippotune.protocol.commands import DropCheckpoint
from hippotune.protocol.events import BestChanged, CheckpointDeleted, CheckpointLost


class Checkpoints:
    """Handles what happens to checkpoints, and says which may go."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._best: dict[str, set[Position]] = {}
        self._pinned: dict[int, Position] = {}

    # Events.

    def best_changed(self, event: BestChanged) -> None:
        """The checkpoints of the best results stay, even above the budget."""
        self._best[event.study] = {
            self._state.plan.find(config, step, key).position(step) for config, step, key in event.best
        }

    def forget_best(self, study: str) -> None:
        """The best results of a study are subject to the budget again."""
        self._best.pop(study, None)

    def checkpoint_lost(self, event: CheckpointLost) -> None:
        """The files of a checkpoint are damaged or gone."""
        self.drop(event.position)

    def checkpoint_deleted(self, event: CheckpointDeleted) -> None:
        """A checkpoint that was dropped takes no room any more."""
        self._state.eviction.deleted(event.checkpoint)

    # What stays.

    def pin(self, request: int, position: Position) -> None:
        """Keep a checkpoint, even above the budget, until its request is withdrawn."""
        self._pinned[request] = position

    def unpin(self, request: int) -> None:
        """What was kept for a request is subject to the budget again."""
        self._pinned.pop(request, None)

    def is_pinned(self, position: Position) -> bool:
        """Whether a request, or a person, asked for a checkpoint to be kept."""
        return position in self._state.plan.pinned or position in self._pinned.values()

    def keep(self, position: Position, checkpoint: Checkpoint) -> None:
        """A checkpoint has come. Where there is one already, something may be reading that: it stays."""
        state = self._state
        there = state.plan[position.node].checkpoints.get(position.step)
        if there is not None:
            state.commands.append(DropCheckpoint(position, checkpoint))
            state.eviction.dropped(checkpoint)
            checkpoint = replace(there, interim=there.interim and checkpoint.interim)
        state.facts.append(state.plan.keep(position, checkpoint))

    def evict(self, more: int = 0) -> None:
        """Drop checkpoints until a save by every worker, all reserved saves and `more` others fit."""
        workers = self._state.workers
        under_way = len(workers.idle) + len(workers.busy) + self._reserved + more
        for position in self._state.eviction.excess(under_way, self._need):
            self.drop(position)

    def _need(self, position: Position) -> int:
        """Grade a checkpoint: 0 may go, 1 a request or a trunk goes on from it, 2 stays."""
        state = self._state
        for lease in state.leases.running():
            if position in (lease.position(lease.start), lease.position(lease.resumes_at)):
                return 2
        return self.need_beside_leases(position)

    def need_beside_leases(self, position: Position) -> int:
        """Grade a checkpoint by what does not run."""
        state = self._state
        if self.is_pinned(position) or any(position in best for best in self._best.values()):
            return 2
        if any(is_pinned(position) for is_pinned in state.pins):
            return 2
        node = state.plan[position.node]
        is_newest_of_trunk = node in state.likely_branches and position.step == max(node.checkpoints)
        return int(is_newest_of_trunk or state.frontier.held(node, position.step) is not None)

    def drop(self, position: Position) -> None:
        """A checkpoint goes: what would have started there starts from the one before."""
        state = self._state
        node = state.plan[position.node]
        checkpoint = node.checkpoints.get(position.step)
        if checkpoint is not None:
            state.facts.append(state.plan.drop(position))
            state.commands.append(DropCheckpoint(position, checkpoint))
            state.eviction.dropped(checkpoint)
            state.frontier.unmarked(node, position.step)
            state.workers.states.dropped(position)

    def drop_if_unneeded(self, position: Position) -> None:
        """Drop a checkpoint that was for a proof, unless something can start from it or ends there."""
        node = self._state.plan[position.node]
        is_end = node.has_branch(position.step) or position.step in node.metrics
        if not is_end and not self._need(position):
            self.drop(position)

    # Room.

    def has_room(self) -> bool:
        """Whether one more lease may start: its save fits into the budget, or it is the only one."""
        eviction = self._state.eviction
        if eviction.budget is None:
            return True
        saves = self._state.promises.saves.count
        return eviction.fits(saves + self._reserved + 1) or not (saves or eviction.is_deleting)

    def has_room_to_stop(self) -> bool:
        """Whether a lease may end on its way: without room for its checkpoint there, it would start over."""
        return self.has_room_for(1)

    def has_room_for(self, saves: int) -> bool:
        """Whether this many saves fit, beside all that are promised or reserved."""
        return self._state.eviction.fits(self._state.promises.saves.count + self._reserved + saves)

    @property
    def _reserved(self) -> int:
        """How many interim checkpoints may still come: a lease has up to two, the old one and the next."""
        leases = [lease for lease in self._state.leases.running() if lease.checkpoint_every is not None]
        return sum(max(2 - len(lease.interims), 0) for lease in leases)
