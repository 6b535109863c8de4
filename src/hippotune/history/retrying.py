"""Having trials tried again that failed or are suspended: what keeps them from going on is cleared."""

from __future__ import annotations

from hippotune.history.history import History
from hippotune.plan.facts import FailureCleared


def cleared(history: History, number: int | None, now: float) -> tuple[list[FailureCleared], int]:
    """Clear in a history what keeps trials from going on, all of them or those with a number.

    Return that as facts, and how many trials are free to go on.
    """
    plan, hindered = history.plan, [trial for trial in history.trials if trial.error is not None]
    chosen = history.trials if number is None else history.numbered(number)
    facts = [
        plan.clear(position, now) for trial in chosen for position in plan.obstacles(trial.node, trial.asked)
    ]
    freed = [trial for trial in hindered if not plan.obstacles(trial.node, trial.asked)]
    # What failed may have been a report on the way, which is not listed.
    return facts, max(len(freed), 1) if facts else 0
