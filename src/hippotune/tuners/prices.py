"""What a config costs in steps: those that it shares with nothing that this tuner has asked for.

A tuner that is run again has to decide as it did, and by then the plan holds everything. So prices follow
from what the tuner itself has asked for and foreseen, in that order, and not from what the plan holds at the
moment. As in the plan, there is a checkpoint where a trial ends and where others that were known in time
leave it. What is under way counts as trained: a batch costs its union.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.sequences.config import Config


class Prices:
    """The prices of configs, each trained for `steps` steps."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._plan = Plan()
        self._saved: defaultdict[Node, set[int]] = defaultdict(set)

    def foresee(self, configs: Iterable[Config]) -> None:
        """Note configs that may come: what is asked for from now on is saved where they leave it."""
        for config in configs:
            self._plan.place(config, self._steps)

    def ask(self, config: Config) -> None:
        """Note that a config is trained: what leaves its new part from now on has a checkpoint there."""
        leaf, _ = self._plan.place(config, self._steps)
        begins, end = self._steps - self.of(config), self._steps
        for node in leaf.lineage():
            if end > begins:
                self._saved[node].update(node.branch_steps(max(node.start, begins), end), (end,))
            end = node.start

    def of(self, config: Config) -> int:
        """Return the steps from the nearest checkpoint on: 0 for what was asked for before."""
        node, parts = self._plan.follow(config, self._steps, "")
        if node is None:
            return self._steps
        reach = self._steps if parts is None else parts
        for above in node.lineage():
            kept = [step for step in self._saved.get(above, ()) if step <= reach]
            if kept:
                return self._steps - max(kept)
            reach = above.start
        return self._steps
