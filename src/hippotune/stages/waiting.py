"""Which studies wait for training from a state on.

A study waits below a state if something that it wants can only be had by training on from there: nothing on
the way to it is kept in a checkpoint.
"""

from __future__ import annotations

from hippotune.plan.node import NOTHING, Node
from hippotune.stages.frontier import Frontier


def waiting_below(frontier: Frontier, node: Node, step: int) -> set[str]:
    """Return the studies that wait for what training along `node` from `step` on leads to.

    Metrics at `step` itself are still waited for; what leaves there is not.
    """
    found: set[str] = set()
    stack = [(node, step)]
    while stack:
        along, begin = stack.pop()
        if frontier.wanted_below(along) <= found:
            continue
        end = min((at for at in along.checkpoints if at > begin), default=None)
        for at, want in frontier.wants.get(along, NOTHING).items():
            if begin <= at and (end is None or at < end):
                found |= want.studies.keys()
        for branch in along.branch_steps(begin, None if end is None else end - 1):
            stack += [(child, branch) for child in frontier.live_branches(along, branch)]
    return found
