"""Results that have come and that the tuner has not taken yet, in the order of the plan's history.

Results of one place in the history come in the order in which they were asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import count

from hippotune.protocol.commands import Answer
from hippotune.tuners.base import Result, Trial

# A result's place in the plan's history, its request, its number among all results, and itself.
Arrived = tuple[int, int, int, Result]


class Arrivals:
    """See the module."""

    def __init__(self) -> None:
        self._heap: list[Arrived] = []
        self._numbers = count()

    def add(self, answer: Answer, result: Result) -> None:
        """A result has come."""
        heappush(self._heap, (answer.order, answer.request, next(self._numbers), result))

    def take(self) -> Arrived:
        """Take the first one."""
        return heappop(self._heap)

    def put_back(self, taken: Iterable[Arrived]) -> None:
        """Put back what was taken, each where it was."""
        for arrived in taken:
            heappush(self._heap, arrived)

    def discard(self, trial: Trial) -> None:
        """Forget all results of a trial."""
        self._heap = [arrived for arrived in self._heap if arrived[-1].trial != trial]
        heapify(self._heap)

    def is_ready(self, committed: int) -> bool:
        """Whether the first one is durable, where facts are committed up to such a place in the history."""
        return bool(self._heap) and self._heap[0][0] <= committed

    def __bool__(self) -> bool:
        return bool(self._heap)
