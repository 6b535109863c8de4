"""How long a step takes: measured while training, relative to the plan's usual step.

Paths are compared by time, and only ratios matter for that. So a node's pace is kept relative to the usual
step: it starts at 1 (or at its parent's), needs no rebuilding when the usual step becomes known, and moves
only when a measurement says something materially different.
"""

from __future__ import annotations

from hippo.plan.node import Node

# A pace moves when the measured one differs by more than this: noise must not reorder equal paths.
_MATERIAL = 1.25
# Weight of the past per observed step; about the last 200 steps count.
_MEMORY = 0.995


class Profile:
    """Learns the pace of nodes from the steps that were trained along them."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._steps = 0.0
        self._per_node: dict[Node, tuple[float, int]] = {}

    @property
    def usual(self) -> float | None:
        """Seconds that a usual step takes; None before anything was trained."""
        return self._seconds / self._steps if self._steps else None

    def observe(self, node: Node, steps: int, seconds: float) -> None:
        """Take in that `steps` steps along `node` took `seconds`."""
        if steps <= 0:
            return
        fade = _MEMORY**steps
        self._seconds = self._seconds * fade + seconds
        self._steps = self._steps * fade + steps
        spent, trained = self._per_node.get(node, (0.0, 0))
        spent, trained = spent + seconds, trained + steps
        self._per_node[node] = (spent, trained)
        usual = self._seconds / self._steps
        if usual > 0 and trained >= 3:
            pace = spent / trained / usual
            if not 1 / _MATERIAL < pace / node.pace < _MATERIAL:
                node.pace = pace

    def seconds(self, reach: float) -> float | None:
        """Turn a length in usual steps into seconds."""
        usual = self.usual
        return None if usual is None else reach * usual
