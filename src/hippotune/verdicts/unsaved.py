"""Finds values that checkpoints leave out, and that differ a step after a load.

A trainer's own state_dict() leaves out what it does not name, and a __getstate__() leaves out what it drops.
A cache is rebuilt by the step that needs it, with the same value. Everything else is lost, whether a metric
shows it or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from hippotune.protocol.fingerprint import Difference, Leaf, explanations, is_within
from hippotune.protocol.proof import Run
from hippotune.verdicts.stories import attribute


def unsaved(
    runs: Sequence[Run], left_out: Sequence[str], allowed: float
) -> tuple[list[Difference], set[str]]:
    """Return the values that are alike in all runs from checkpoints and differ from the straight run; and the
    attributes that differ between straight runs too. Floats may be `allowed` apart.
    """
    truth, *others = runs
    unsteady: set[str] = set()
    cut: list[dict[str, Difference]] = []
    for run in others:
        step = max(truth.states.keys() & run.states.keys(), default=0)
        if run.name == "wide" or step <= run.start:
            continue
        found = [
            item
            for item in explanations(truth.states[step], run.states[step])
            if item.leaf.kind == "unsaved" and item.distance > allowed
        ]
        if run.start:
            cut.append({item.path: item for item in found})
        else:
            unsteady |= {attribute(item.path) for item in found}
    first, *rest = cut or [{}]
    forgotten = [
        item
        for path, item in first.items()
        if not is_within(path, (*left_out, *unsteady))
        and all(path in each and _is_alike(item.other, each[path].other, allowed) for each in rest)
    ]
    return forgotten, unsteady


def _is_alike(one: Leaf | None, other: Leaf | None, allowed: float) -> bool:
    if one is None or other is None:
        return one is other
    return one.digest == other.digest or one.distance(other) <= allowed
