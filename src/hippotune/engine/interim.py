"""Interim checkpoints: saved on the way through a long stage, so that a loss costs only the last part of it.

They belong to their lease, which decides when to save (`LeaseRun`), and they do not split the stage. An
interim checkpoint is dropped as soon as nothing would go on from it: when the next one or the end of its
stage is durable, or when its lease has failed or is not wanted any more. Until then it is a checkpoint like
any other and a fact of the plan: after a loss, also of the driver, training goes on from it. Where a config
branches off at its step, or a request ends there, it is kept for good.

With a budget, room for two is reserved for every lease that lasts long enough to save on its way.
"""

from __future__ import annotations

from dataclasses import replace

from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.lease import Lease
from hippotune.engine.state import State
from hippotune.plan.facts import Checkpoint, Position
from hippotune.protocol.events import CheckpointSaved, Event, NumbersLogged, Progressed


class Interim:
    """Says which leases save on their way, and drops their checkpoints when these are of no use any more.

    One that was in the plan at the start, as the last along its node, stays until a lease has started from
    it: it may be needed later.
    """

    def __init__(self, state: State, checkpoints: Checkpoints, every: float | None) -> None:
        self._state = state
        self._checkpoints = checkpoints
        self._every = every
        self._taken_up = {at: None for at in state.plan.interim if self._is_passed(at)}

    # Leases.

    def adopt(self, lease: Lease) -> None:
        """A lease starts, perhaps from an interim checkpoint."""
        position = lease.position(lease.start)
        self._make_lasting(position)
        if position in self._state.plan.interim:
            self._taken_up[position] = None
            lease.interims.add(lease.start)
        self.offer(lease)

    def offer(self, lease: Lease) -> None:
        """Let a lease save on its way; with a budget, if it lasts long enough and there is room for two."""
        if self._every is None or lease.checkpoint_every is not None:
            return
        if self._state.eviction.budget is not None:
            if self._state.eviction.is_guess or not self._is_long(lease, self._every):
                return
            if not self._checkpoints.has_room_for(2):
                self._checkpoints.evict(more=2)
                return  # it is offered again when there is room
        lease.checkpoint_every = self._every
        self._state.changed[lease] = None

    def _is_long(self, lease: Lease, seconds: float) -> bool:
        profile, now = self._state.profile, self._state.now
        left = (profile.usual or 0.0) * lease.time_left(profile, now, lease.end)
        return now - lease.began + left >= seconds

    # Checkpoints.

    def saved(self, lease: Lease, event: CheckpointSaved) -> Checkpoint:
        """A lease has saved a checkpoint; return it in the form that is kept."""
        position = lease.position(event.step)
        lease.resumes_at = max(lease.resumes_at, event.step)
        if not (event.checkpoint.interim or self._is_cut(lease, event.step)):
            return event.checkpoint
        if (event.checkpoint.interim and event.step in lease.saves) or self._is_lasting(position):
            return replace(event.checkpoint, interim=False)
        lease.interims.add(event.step)
        self._taken_up[position] = None
        return replace(event.checkpoint, interim=True)

    def _is_cut(self, lease: Lease, step: int) -> bool:
        """Whether a lease saves at a step for no other reason than that its turn ended there."""
        is_unasked = lease.state == "running" and step not in lease.saves
        return bool(lease.cut) and (is_unasked or step == lease.cut_at)

    def sweep(self, event: Event) -> None:
        """After an event, drop the interim checkpoints that nothing would go on from any more."""
        if not self._taken_up or isinstance(event, Progressed | NumbersLogged):
            return
        state, interim = self._state, self._state.plan.interim
        needed = {lease.position(lease.resumes_at) for lease in state.leases.by_number.values()}
        for position in list(self._taken_up):
            self._make_lasting(position)
            if position in interim and position not in needed and not self._is_wanted(position):
                self._checkpoints.drop(position)
            if position not in interim:
                del self._taken_up[position]
        for lease in state.leases.running():
            lease.interims = {step for step in lease.interims if lease.position(step) in interim}

    def _is_wanted(self, position: Position) -> bool:
        """Whether an open request, or a suspended trial if it is retried, goes on from a checkpoint."""
        failure = self._state.plan[position.node].failure
        is_suspended = failure is not None and failure.suspended and failure.step > position.step
        return is_suspended or self._checkpoints.need_beside_leases(position) > 0

    def _is_passed(self, position: Position) -> bool:
        return max(self._state.plan[position.node].checkpoints) > position.step

    def _make_lasting(self, position: Position) -> None:
        """Keep an interim checkpoint for good, where there is a reason to."""
        plan = self._state.plan
        if position in plan.interim and self._is_lasting(position):
            checkpoint = plan[position.node].checkpoints[position.step]
            self._state.facts.append(plan.keep(position, replace(checkpoint, interim=False)))

    def _is_lasting(self, position: Position) -> bool:
        """Whether a checkpoint is kept at a position in any case."""
        node, step = self._state.plan[position.node], position.step
        there = node.checkpoints.get(step)
        want = self._state.frontier.wants.get(node, {}).get(step)
        is_end = (want is not None and want.save) or self._checkpoints.is_pinned(position)
        return is_end or node.has_branch(step) or (there is not None and not there.interim)
