"""Numbers that a lease has logged and that are not recorded yet: held back so that facts are few and large.

Long steps are recorded one by one, short ones about once a second. The numbers of steps are always recorded
before the metrics, the checkpoint or the end of the lease that make training these steps again unnecessary.
"""

from __future__ import annotations

import math

from hippotune.plan.facts import NumbersRecorded
from hippotune.plan.node import Node
from hippotune.plan.numbers import Logged, joined, within
from hippotune.protocol.events import NumbersLogged

_SECONDS = 1.0
_STEPS = 1000


class HeldNumbers:
    """The numbers that one lease has logged since they were last released."""

    __slots__ = ("_count", "_parts", "_released")

    def __init__(self, began: float) -> None:
        self._parts: list[Logged] = []
        self._count = 0
        self._released = began

    def add(self, event: NumbersLogged, now: float) -> bool:
        """Take numbers in; return whether it is time to release them."""
        self._parts.append((event.steps, event.numbers))
        self._count += len(event.steps)
        due = self._count >= _STEPS or now - self._released >= _SECONDS
        if due:
            self._released = now
        return due

    def release(self, path: tuple[tuple[Node, int, int], ...], now: float) -> list[NumbersRecorded]:
        """Return as facts what is held, by the nodes on the lease's path."""
        if not self._parts:
            return []
        logged = joined(self._parts)
        self._parts, self._count = [], 0
        ends = [end for _, _, end in path[:-1]] + [math.inf]
        facts = []
        for (node, start, _), end in zip(path, ends, strict=True):
            steps, numbers = within(logged, start, end)
            if steps:
                facts.append(NumbersRecorded(node.id, steps, numbers, now))
        return facts
