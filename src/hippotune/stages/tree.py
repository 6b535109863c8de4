"""The stage tree: what is still to be trained for a set of asks, cut into the smallest things to run.

Derived from the plan when it is shown, never stored. A stage is a stretch of one
node with no branch, ask or checkpoint inside it, and no hyper-parameter that goes from one piece of its
sequence to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from hippotune.plan.node import Node
from hippotune.sequences.base import Sequence
from hippotune.sequences.config import Config


@dataclass(slots=True, eq=False)
class Stage:
    """The steps [start, end) of a node, and the stages that go on from there."""

    node: Node
    start: int
    end: int
    asks: int = 0
    below: list[Stage] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """How many steps the stage trains."""
        return self.end - self.start

    def walk(self) -> Iterator[Stage]:
        """Yield this stage and all below it, each before those below it."""
        stack = [self]
        while stack:
            stage = stack.pop()
            yield stage
            stack.extend(reversed(stage.below))


@dataclass(slots=True)
class StageTree:
    """Stages that can start now (from scratch or from a checkpoint), with all that hangs on them."""

    roots: list[Stage]

    def stages(self) -> Iterator[Stage]:
        """Yield all stages, each before those below it."""
        for root in self.roots:
            yield from root.walk()

    @property
    def steps(self) -> int:
        """How many steps are left to train, each shared step once."""
        return sum(stage.steps for stage in self.stages())

    @property
    def longest_chain(self) -> int:
        """How many steps have to be trained one after the other, with any number of workers."""
        lengths: dict[Stage, int] = {}
        for stage in reversed(list(self.stages())):
            lengths[stage] = stage.steps + max((lengths[below] for below in stage.below), default=0)
        return max((lengths[root] for root in self.roots), default=0)


def stage_tree(asks: Iterable[tuple[Node, int]], scratch: bool = False) -> StageTree:
    """Build the stage tree for asks: pairs of a node and the step count to reach on it.

    What an ask needs reaches back to the nearest checkpoint; with `scratch`, all the way to step 0, as if
    nothing had been trained yet.
    """
    needed: dict[Node, list[tuple[int, int]]] = {}
    cuts: dict[Node, set[int]] = {}
    asked: dict[tuple[Node, int], int] = {}
    for node, step in asks:
        asked[node, step] = asked.get((node, step), 0) + 1
        along, reach = node, step
        while True:
            cuts.setdefault(along, set()).add(reach)
            kept = [] if scratch else [at for at in along.checkpoints if at <= reach]
            begin = max(kept, default=along.start)
            intervals = needed.setdefault(along, [])
            covered = any(low <= begin and reach <= high for low, high in intervals)
            if reach > begin and not covered:
                intervals.append((begin, reach))
            if kept or covered or along.parent is None:
                break
            along, reach = along.parent, along.start
    return _assemble(needed, cuts, asked, scratch)


def _assemble(
    needed: dict[Node, list[tuple[int, int]]],
    cuts: dict[Node, set[int]],
    asked: dict[tuple[Node, int], int],
    scratch: bool,
) -> StageTree:
    ending: dict[tuple[Node, int], Stage] = {}
    pieces: dict[tuple[Sequence, int, int], set[int]] = {}
    roots: list[Stage] = []
    for node in sorted(needed, key=lambda each: (each.start, each.id)):
        marks = cuts[node] | (set() if scratch else set(node.checkpoints))
        for low, high in sorted(_merged(needed[node])):
            inside = {mark for mark in marks if low < mark < high}
            inside |= _piece_starts(node.config, low, high, pieces)
            points = [low, *sorted(inside), high]
            for start, end in pairwise(points):
                stage = Stage(node, start, end, asked.get((node, end), 0))
                ending[node, end] = stage
                holder = node.holder(start)
                above = ending.get((holder, start))
                kept = not scratch and start in holder.checkpoints
                (roots if above is None or kept else above.below).append(stage)
    return StageTree(roots)


def _piece_starts(
    config: Config, low: int, high: int, known: dict[tuple[Sequence, int, int], set[int]]
) -> set[int]:
    """Return the steps between `low` and `high` at which a sequence goes on to its next piece.

    Many configs are made of few sequences: what was worked out for one is `known` for the others.
    """
    starts: set[int] = set()
    for name in config:
        sequence = config[name]
        found = known.get((sequence, low, high))
        if found is None:
            found = known[sequence, low, high] = set()
            _, end = sequence.piece(low)
            while end < high:
                found.add(int(end))
                _, end = sequence.piece(int(end))
        starts |= found
    return starts


def _merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
