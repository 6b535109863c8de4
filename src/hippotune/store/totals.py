"""How much the plans of a store hold, counted by the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from hippotune.store.schema import CHECKPOINTS, REQUESTS, RESULTS


@dataclass(frozen=True)
class PlanTotals:
    """What a plan holds.

    Attributes
    ----------
    asked : Mapping[str, Sequence[tuple[int, int]]]
        What each study has asked for, by the name under which it did: numbers of trials, each with a number
        that stands for its config, in the order in which they were first asked for.
    results : int
        At how many positions there are metrics.
    checkpoints : int
        How many checkpoints are kept.
    bytes : int
        How much they take together.
    """

    asked: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    results: int = 0
    checkpoints: int = 0
    bytes: int = 0


def read_totals(connection: sa.Connection) -> dict[int, PlanTotals]:
    """Count for all plans, by their numbers."""
    requests, results, checkpoints = REQUESTS.c, RESULTS.c, CHECKPOINTS.c
    trial = (requests.plan, requests.study, requests.trial, requests.config)
    first = sa.func.min(requests.number)
    asked: dict[int, dict[str, list[tuple[int, int]]]] = {}
    for plan, study, *ask in connection.execute(sa.select(*trial).group_by(*trial).order_by(first)):
        asked.setdefault(plan, {}).setdefault(study, []).append((ask[0], ask[1]))
    query = sa.select(results.plan, sa.func.count(results.metrics)).group_by(results.plan)
    measured = {row[0]: row[1] for row in connection.execute(query)}
    size = sa.func.sum(checkpoints.bytes)
    query = sa.select(checkpoints.plan, sa.func.count(), size).group_by(checkpoints.plan)
    kept = {plan: (count, int(total)) for plan, count, total in connection.execute(query)}
    return {
        plan: PlanTotals(asked.get(plan, {}), measured.get(plan, 0), *kept.get(plan, (0, 0)))
        for plan in {*asked, *measured, *kept}
    }
