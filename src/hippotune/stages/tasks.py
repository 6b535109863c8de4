"""The tasks of one study, the longest first, and how long all of them are together.

What it says follows from the tasks that it was given last for every place, in whatever order they came: the
sum is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

from hippotune.plan.node import Node

StartPoint = tuple[Node, int]
Path = tuple[tuple[Node, int, int], ...]

# Lengths are added up in these parts of a usual step, as whole numbers: in any order they make the same sum.
_PARTS = 1 << 20
# This many outdated entries may stay in any case.
_FEW = 64


@dataclass(frozen=True, slots=True)
class Task:
    """Work that can start now: from the state at `start` on `node` to the want that is furthest away.

    `time` is how long it is estimated to take, in usual steps.
    """

    node: Node
    start: int
    time: float
    goal: Node
    end: int

    def path(self) -> Path:
        """Return the way from the start to the end: nodes, and the steps from which to which on each."""
        path: list[tuple[Node, int, int]] = []
        node, end = self.goal, self.end
        while node is not self.node:
            assert node.parent is not None
            path.append((node, node.start, end))
            node, end = node.parent, node.start
        path.append((node, self.start, end))
        return tuple(reversed(path))


class TaskQueue:
    """See the module. There is at most one task at each place."""

    def __init__(self) -> None:
        self._tasks: dict[StartPoint, tuple[int, Task]] = {}
        self._heap: list[tuple[float, int, int, int, StartPoint]] = []
        self._numbers = count()
        self._parts = 0

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def total_time(self) -> float:
        """How long all tasks are together, in usual steps."""
        return self._parts / _PARTS

    def put(self, place: StartPoint, task: Task | None) -> None:
        """Take in which task there is at a place now; with None, there is none."""
        number, before = self._tasks.pop(place, (0, None))
        if before is not None:
            self._parts -= round(before.time * _PARTS)
        if task is not None:
            self._parts += round(task.time * _PARTS)
            if before is None or before.time != task.time:
                number = next(self._numbers)
                heappush(self._heap, (-task.time, task.node.id, task.start, number, place))
            self._tasks[place] = number, task
        if len(self._heap) > 2 * len(self._tasks) + _FEW:
            self._heap = [entry for entry in self._heap if self._is_current(entry)]
            heapify(self._heap)

    def longest(self, limit: int) -> list[Task]:
        """Return the longest tasks, ties by age of the node."""
        found: list[tuple[float, int, int, int, StartPoint]] = []
        while self._heap and len(found) < limit:
            entry = heappop(self._heap)
            if self._is_current(entry):
                found.append(entry)
        for entry in found:
            heappush(self._heap, entry)
        return [self._tasks[place][1] for *_, place in found]

    def _is_current(self, entry: tuple[float, int, int, int, StartPoint]) -> bool:
        known = self._tasks.get(entry[4])
        return known is not None and known[0] == entry[3]
