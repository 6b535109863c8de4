"""Trials of one state: where they part further on, what training them costs, and whom to train first.

Between two rungs the trials of a state share all steps up to where they part. So a number of them costs the
unique steps of their union; and where not all can go on, those are taken that part at different steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.tuners.base import Trial


class Partings:
    """The trials of one state at step `start`, as far as step `end`."""

    def __init__(self, trials: Sequence[Trial], start: int, end: int) -> None:
        plan = Plan()
        self._trials = sorted(trials, key=lambda trial: trial.number)
        self._leaf = {trial: plan.place(trial.config, end)[0] for trial in self._trials}
        self._paths = {trial: list(leaf.lineage())[::-1] for trial, leaf in self._leaf.items()}
        self._start = start
        self._end = end

    def costs(self, trials: Sequence[Trial]) -> list[int]:
        """Return, for each number of trials from the first on, the unique steps that they take."""
        trained: dict[Node, int] = {}
        costs, total = [], 0
        for trial in trials:
            node: Node | None = self._leaf[trial]
            step = self._end
            while node is not None and step > trained.get(node, self._start):
                first = max(node.start, self._start)
                total += step - max(trained.get(node, first), first)
                is_known = node in trained
                trained[node] = step
                step, node = node.start, None if is_known else node.parent
            costs.append(total)
        return costs

    def within(self, places: int, seed: Sequence[int]) -> list[Trial]:
        """Return trials that cost at most what the first `places` of them cost, by number.

        They are drawn by `seed`, spread over the steps where trials first part. Those that do not part
        before `end` are taken together.
        """
        if places >= len(self._trials):
            return self._trials
        budget = self.costs(self._trials[:places])[-1]
        drawn = self._spread(self._trials, 0, np.random.default_rng(list(seed)))
        taken = {
            self._leaf[trial] for trial, cost in zip(drawn, self.costs(drawn), strict=True) if cost <= budget
        }
        return [trial for trial in drawn if self._leaf[trial] in taken]

    def together(self, trials: Sequence[Trial]) -> list[list[Trial]]:
        """Return trials in groups that do not part before `end`, in the order of their first ones."""
        groups: defaultdict[Node, list[Trial]] = defaultdict(list)
        for trial in trials:
            groups[self._leaf[trial]].append(trial)
        return list(groups.values())

    def _spread(self, trials: list[Trial], depth: int, random: np.random.Generator) -> list[Trial]:
        """Return trials in an order in which those that part at different steps take turns.

        Where trials part, most of them go on along the line, and the others leave it.
        """
        leave: defaultdict[int, list[list[Trial]]] = defaultdict(list)
        while len(trials) > 1:
            step, groups = self._parted(trials, depth)
            if step == self._end:
                break
            *others, (depth, trials) = sorted(groups, key=lambda group: len(group[1]))
            leave[step] += [self._spread(each, below, random) for below, each in others]
        leave[self._end] += [[trial] for trial in trials]
        return _in_turns([_in_turns(orders, random) for orders in leave.values()], random)

    def _parted(self, trials: list[Trial], depth: int) -> tuple[int, list[tuple[int, list[Trial]]]]:
        """Return the first step at which trials on one node part, and the groups that they part into.

        Each group comes with the depth of its node. At `end` there is one group.
        """
        below = {trial: self._paths[trial][depth + 1 : depth + 2] for trial in trials}
        step = min((node.start for nodes in below.values() for node in nodes), default=self._end)
        groups: defaultdict[Node | None, list[Trial]] = defaultdict(list)
        for trial, nodes in below.items():
            groups[nodes[0] if nodes and nodes[0].start == step else None].append(trial)
        return step, [(depth + (node is not None), group) for node, group in groups.items()]


def _in_turns(orders: list[list[Trial]], random: np.random.Generator) -> list[Trial]:
    """Return what orders hold, the first of each before the second of any; the orders come by chance."""
    shuffled = [orders[place] for place in random.permutation(len(orders))]
    return [trial for turn in zip_longest(*shuffled) for trial in turn if trial is not None]
