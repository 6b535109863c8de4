"""What leases promise when they start, and the updates that tell running ones of changes."""

from __future__ import annotations

from dataclasses import dataclass

from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.lease import Lease
from hippotune.engine.state import State
from hippotune.plan.facts import Position
from hippotune.plan.node import Node


@dataclass(eq=False, repr=False)
class LeaseUpdates:
    """Makes promises on behalf of leases. Changes are sent at the end of the event."""

    _state: State
    _checkpoints: Checkpoints

    def take_on(self, lease: Lease) -> None:
        """Promise everything that lies on the path of a lease that starts."""
        promises = self._state.promises
        saves = self._on_the_way(lease)
        for node, start, end in lease.path:
            for step, want in self._state.frontier.wants.get(node, {}).items():
                if start < step <= end or (step == start == lease.start and step > node.start):
                    if not promises.is_evaluated(node, step):
                        promises.evaluations.add(lease, step)
                    if want.save:
                        saves.add(step)
        if lease.end > lease.start:
            saves.add(lease.end)
        saves = {step for step in saves if step not in lease.node_at(step).checkpoints}
        for step in sorted(self._what_fits(lease, saves)):
            promises.saves.add(lease, step)

    def use_room(self) -> None:
        """The size of checkpoints is known now: promise the saves that fit, the latest first."""
        for lease in [each for each in self._state.leases.running() if not each.proof]:
            for step in sorted(self._on_the_way(lease), reverse=True):
                self.entrust(lease.node_at(step), step, evaluate=False, save=True)

    def _on_the_way(self, lease: Lease) -> set[int]:
        """Return the steps on the path of a lease at which others leave it, or are likely to."""
        return {
            step
            for node, start, end in lease.path
            for step in (*node.branch_steps(start, end), *self._state.likely_branches.get(node, ()))
            if start < step <= end
        }

    def _what_fits(self, lease: Lease, steps: set[int]) -> set[int]:
        """Leave out saves that do not fit: first those that nothing waits for yet, then the earliest."""
        eviction, checkpoints = self._state.eviction, self._checkpoints
        if eviction.budget is None:
            return steps
        must = {step for step in steps if step == lease.end or checkpoints.is_pinned(lease.position(step))}
        others = [] if eviction.is_guess else sorted(steps - must, reverse=True)
        others.sort(key=lambda step: not self._state.frontier.live_branches(lease.node_at(step), step))
        while others and not checkpoints.has_room_for(len(must) + len(others)):
            others.pop()
        return must.union(others)

    def entrust(self, node: Node, step: int, evaluate: bool, save: bool) -> None:
        """Have a lease that will pass `step` of `node` evaluate or save there, if there is such a lease."""
        promises = self._state.promises
        for lease in self._state.leases.on(node):
            if self._state.halted or not lease.covers(node, step) or (lease.stopping and step > lease.end):
                continue
            if evaluate and not promises.is_evaluated(node, step):
                promises.evaluations.add(lease, step)
                lease.end = max(lease.end, step)
            if save and step <= lease.end and step not in node.checkpoints:
                pinned = self._checkpoints.is_pinned(Position(node.id, step))
                if not promises.is_saved(node, step) and (pinned or self._checkpoints.has_room_for(1)):
                    promises.saves.add(lease, step)
            self._state.changed[lease] = None
            return

    def shorten(self, lease: Lease) -> None:
        """End a lease at the last step that a request needs."""
        needed = set(lease.evaluations)
        for step in lease.saves:
            node = lease.node_at(step)
            waited_for = Position(node.id, step) in self._state.promises.waiting_for_save
            if waited_for or self._state.frontier.held(node, step) is not None:
                needed.add(step)
        self.stop_at(lease, max(needed, default=lease.at))

    def stop_at(self, lease: Lease, step: int) -> None:
        """End a lease at a step, if it would have gone further."""
        if step < lease.end:
            lease.end = step
            self._state.changed[lease] = None

    def tell(self) -> None:
        """Tell running leases what has changed for them."""
        for lease in self._state.changed:
            update = lease.update
            if lease.state == "running" and update != lease.last_sent:
                lease.last_sent = update
                lease.record(self._state.now, f"now to {lease.end}")
                self._state.commands.append(update)
