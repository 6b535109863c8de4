"""A node of the search plan: where a config left the one above it, and what is known along its path.

A node stands for a whole config, in force from `start` on; before `start` its values are those of its
ancestors. It has no end: its stretch goes as far as it is requested, and other configs leave it at later
steps. So a node never has to be split, and a plan only grows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from hippotune.plan.facts import Checkpoint, Position
from hippotune.sequences.config import Config

NOTHING: Mapping[Any, Any] = MappingProxyType({})
_NO_STEPS: list[int] = []  # replaced before anything is put in


class Failure(NamedTuple):
    """What keeps training along a node from going on: the first step count that it cannot reach, and why.

    `order` is its place in the plan's history.
    """

    step: int
    order: int
    error: str
    suspended: bool = False


class Node:
    """One node. Only the plan changes it.

    Attributes
    ----------
    children : Mapping[tuple[object, ...], Node]
        The nodes that leave this one, by the step at which they do, after `start`, and their values there.
    checkpoints : Mapping[int, Checkpoint]
        Durable states along this node, by step count.
    metrics : Mapping[int, tuple[int, Mapping[str, float]]]
        What was measured along this node, by step count, with its place in the plan's history.
    failure : Failure | None
        What keeps training from going on.
    unmeasured : Mapping[int, Failure]
        Why there are no metrics, by step count, where evaluation failed. Training goes on from there.
    pace : float
        Seconds per step, relative to the plan's usual step; what a node learns its branches inherit.
    """

    __slots__ = (
        "_steps",
        "checkpoints",
        "children",
        "config",
        "failure",
        "id",
        "isolation_key",
        "metrics",
        "pace",
        "parent",
        "start",
        "unmeasured",
    )

    def __init__(self, id: int, parent: Node | None, start: int, config: Config, isolation_key: str) -> None:
        self.id = id
        self.parent = parent
        self.start = start
        self.config = config
        self.isolation_key = isolation_key
        # Most nodes of a large plan are leaves that nothing is known of yet: all of these share one nothing.
        self.children: Mapping[tuple[object, ...], Node] = NOTHING
        self.checkpoints: Mapping[int, Checkpoint] = NOTHING
        self.metrics: Mapping[int, tuple[int, Mapping[str, float]]] = NOTHING
        self.failure: Failure | None = None
        self.unmeasured: Mapping[int, Failure] = NOTHING
        self.pace: float = parent.pace if parent else 1.0
        self._steps: list[int] = _NO_STEPS

    def __repr__(self) -> str:
        above = f" below {self.parent.id}" if self.parent else ""
        return f"<node {self.id} from step {self.start}{above}>"

    def holder(self, step: int) -> Node:
        """Return the node that the state after `step` steps belongs to, on the path to this one."""
        node = self
        while step <= node.start and node.parent is not None:
            node = node.parent
        return node

    def position(self, step: int) -> Position:
        """Return the position of the state after `step` steps of this config."""
        return Position(self.holder(step).id, step)

    def lineage(self) -> Iterator[Node]:
        """Yield this node and the nodes above it, nearest first."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def add_child(self, node: Node, key: tuple[object, ...]) -> None:
        """Hang `node` below this one."""
        if not isinstance(self.children, dict):
            self.children, self._steps = {}, []
        self.children[key] = node
        if not self.has_branch(node.start):
            insort(self._steps, node.start)

    def set_metrics(self, step: int, order: int, metrics: Mapping[str, float]) -> None:
        """Take in what was measured at a step."""
        if not isinstance(self.metrics, dict):
            self.metrics = {}
        self.metrics[step] = (order, metrics)

    def set_unmeasured(self, step: int, failure: Failure | None) -> None:
        """Take in that evaluation has failed at a step, or, with None, that it is to be tried again."""
        left = {at: known for at, known in self.unmeasured.items() if at != step}
        self.unmeasured = left if failure is None else {**left, step: failure}

    def set_checkpoint(self, step: int, checkpoint: Checkpoint | None) -> None:
        """Take in that there is a checkpoint at a step, or, with None, that there is none any more."""
        if not isinstance(self.checkpoints, dict):
            self.checkpoints = {}
        if checkpoint is None:
            self.checkpoints.pop(step, None)
        else:
            self.checkpoints[step] = checkpoint

    def has_branch(self, step: int) -> bool:
        """Return whether other nodes leave this one at a step."""
        place = bisect_left(self._steps, step)
        return place < len(self._steps) and self._steps[place] == step

    def branch_steps(self, after: int, until: int | None = None) -> list[int]:
        """Return the steps in (after, until] at which other nodes leave this one, in order."""
        first = bisect_right(self._steps, after)
        last = len(self._steps) if until is None else bisect_right(self._steps, until)
        return self._steps[first:last]
