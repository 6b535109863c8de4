"""Which checkpoints to let go when they outgrow a budget.

The checkpoints that are cheapest to train again, for every byte that they free, go first. What a lease
started from, what an open request starts from, and the best results stay. Where even those outgrow the
budget, the cheapest of the starts go as well: the disk is finite, and everything can be trained again.

The cost of a checkpoint changes as its neighbours come and go. It is computed again when it is the
checkpoint's turn to go, so a choice costs a logarithm, not a walk over all.

A dropped checkpoint takes room until its files are deleted, which happens after the drop is recorded. The
files never outgrow the budget by more than one checkpoint, because room is promised before anything is saved:
a lease starts if there is room for the save at its end, or if it is the only one, and promises as many other
saves as there is room for.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from hippotune.plan.facts import Checkpoint, Position
from hippotune.plan.plan import Plan


class CheckpointEviction:
    """Chooses which checkpoints of a plan to drop. Without a budget, none."""

    def __init__(self, plan: Plan, budget: int | None) -> None:
        self.budget = budget
        self._plan = plan
        self._heap: list[tuple[float, Position]] = []
        self._largest = 0
        self._going = 0
        if budget is not None:
            for position, _ in plan.checkpoints():
                self.kept(position)

    def kept(self, position: Position) -> None:
        """A checkpoint has come."""
        if self.budget is not None:
            heappush(self._heap, (self._cost(position), position))
            self._largest = max(self._largest, self._bytes(position))

    def fits(self, saves: int) -> bool:
        """Whether there is room for this many saves; before the first one, their size is unknown."""
        if self.budget is None:
            return True
        return self._plan.bytes + self._going + saves * self._largest <= self.budget

    @property
    def is_guess(self) -> bool:
        """Whether there is a budget, and no checkpoint yet to tell how many it is enough for."""
        return self.budget is not None and not self._largest

    @property
    def is_deleting(self) -> bool:
        """Whether room is about to be made."""
        return self._going > 0

    def dropped(self, checkpoint: Checkpoint) -> None:
        """A checkpoint is let go; its files are still there."""
        self._going += checkpoint.bytes

    def deleted(self, checkpoint: Checkpoint) -> None:
        """The files of a checkpoint that was let go are there no more."""
        self._going -= checkpoint.bytes

    def excess(self, under_way: int, is_needed: Callable[[Position], int]) -> list[Position]:
        """Return what has to go so that as many more saves as are `under_way` fit into the budget.

        `is_needed` grades a position: 0 may go, 1 a request or a trunk goes on from it, 2 stays.
        """
        if self.budget is None:
            return []
        going: list[Position] = []
        held_back: list[tuple[int, float, Position]] = []
        room = self.budget - min(under_way * self._largest, self.budget // 2)
        left = self._plan.bytes
        while left > room and self._heap:
            cost, position = heappop(self._heap)
            if not self._is_there(position):
                continue
            now = self._cost(position)
            if now > cost:
                heappush(self._heap, (now, position))
                continue
            need = is_needed(position)
            if need:
                held_back.append((need, cost, position))
                continue
            going.append(position)
            left -= self._bytes(position)
        for need, cost, position in sorted(held_back):
            if left > self.budget and need == 1:
                going.append(position)
                left -= self._bytes(position)
            else:
                heappush(self._heap, (cost, position))
        return going

    def _is_there(self, position: Position) -> bool:
        return position.step in self._plan[position.node].checkpoints

    def _bytes(self, position: Position) -> int:
        return self._plan[position.node].checkpoints[position.step].bytes

    def _cost(self, position: Position) -> float:
        """Return the time to train the state again, for every byte."""
        node = self._plan[position.node]
        before = self._plan.nearest_checkpoint(node, position.step - 1)
        begin = before.step if before is not None else 0
        cost = 0.0
        step = position.step
        for above in node.lineage():
            cost += (step - max(above.start, begin)) * above.pace
            step = above.start
            if step <= begin:
                break
        return cost / max(self._bytes(position), 1)
