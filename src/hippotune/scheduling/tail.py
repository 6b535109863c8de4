"""The order of the last tasks: which one to start, so that all workers end at about the same time.

Longest first is a good order while there is much to do. At the end it may leave one long task over, and all
workers but one wait for it. There MULTIFIT (Coffman, Garey and Johnson, 1978) does better: it looks for the
shortest time within which all tasks fit onto the workers, each put where it fits first, longest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

# What another order than longest first has to gain, as a share of the time to the end.
_WORTH = 0.01
_ROUNDS = 8


def first_task(times: Sequence[float], busy: Sequence[float]) -> int:
    """Return the place of the task to start next, on a worker that is free.

    `times` are those of all tasks that are left, the longest first; `busy` is how long each worker still has
    work. It is the longest task, unless all work ends notably sooner with another one.
    """
    workers = sorted(busy, reverse=True)
    usual = _longest_first(times, workers)
    low, high = max(workers[0], (sum(times) + sum(workers)) / len(workers)), usual
    found: list[list[int]] | None = None
    for _ in range(_ROUNDS):
        if high - low < _WORTH * usual / 2:
            break
        middle = (low + high) / 2
        if (fitted := _fitted(times, workers, middle)) is None:
            low = middle
        else:
            high, found = middle, fitted
    if found is None or high > usual * (1 - _WORTH) or not found[-1]:
        return 0
    return found[-1][0]


def _longest_first(times: Sequence[float], workers: Sequence[float]) -> float:
    """Return when all tasks are done, if each goes to the first worker that is free."""
    ends = list(workers)
    heapify(ends)
    for time in times:
        heapreplace(ends, ends[0] + time)
    return max(ends)


def _fitted(times: Sequence[float], workers: Sequence[float], end: float) -> list[list[int]] | None:
    """Return the tasks for each worker, such that all are done by `end`; None where they do not fit."""
    ends = list(workers)
    tasks: list[list[int]] = [[] for _ in workers]
    for place, time in enumerate(times):
        for worker, until in enumerate(ends):
            if until + time <= end:
                ends[worker] = until + time
                tasks[worker].append(place)
                break
        else:
            return None
    return tasks
