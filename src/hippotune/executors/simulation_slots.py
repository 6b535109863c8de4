"""Worker slots in virtual time: the lease that each is on, what it writes, and when it is lost."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from hippotune.errors import InvalidInput
from hippotune.executors.simulation_times import checked_number
from hippotune.protocol.commands import RunLease

Loss = tuple[float, int] | tuple[float, int, float]


@dataclass(slots=True, eq=False)
class Course:
    """A lease on its way. `step` is where the worker last stood; since `since` it trains on to `goal`."""

    lease: RunLease
    end: int
    saves: frozenset[int]
    evaluations: frozenset[int]
    step: int
    doing: Literal["starting", "standing", "evaluating", "training", "over"] = "starting"
    since: float = 0.0
    goal: int = 0
    turn: int = 0
    updated: bool = False
    saved: set[int] = field(default_factory=set)
    evaluated: set[int] = field(default_factory=set)
    ahead: list[int] = field(default_factory=list)

    def look_ahead(self) -> None:
        """Note the steps before the end with something to do at them, the last first."""
        self.ahead = sorted((at for at in self.saves | self.evaluations if at < self.end), reverse=True)

    def next_stop(self, first: int) -> int:
        """Return the next step count from `first` on with something to do at it."""
        while self.ahead and self.ahead[-1] < first:
            self.ahead.pop()
        return self.ahead[-1] if self.ahead else max(self.end, first)


@dataclass(slots=True, eq=False)
class Slot:
    """A worker. `life` counts its losses; `written` holds when its last two saves are, or were, done.

    `lease` is the one that it trains, on its own `course`, or with others, on that of their leader.
    """

    worker: int
    up: bool = False
    life: int = 0
    course: Course | None = None
    lease: RunLease | None = None
    written: deque[float] = field(default_factory=lambda: deque(maxlen=2))


def checked_losses(losses: Iterable[Loss], workers: int, startup: float) -> list[tuple[float, int, float]]:
    """Return losses as (time, worker, back_after), where infinity stands for never."""
    checked: list[tuple[float, int, float]] = []
    for loss in losses:
        if len(loss) not in (2, 3) or loss[1] not in range(workers):
            raise InvalidInput(
                f"losses holds {loss!r}; expected (time, worker) or (time, worker, back_after), "
                f"with a worker from 0 to {workers - 1}"
            )
        time = checked_number("the time of a loss is", loss[0], zero=True)
        if time < startup:
            raise InvalidInput(
                f"losses holds {loss!r}; no worker is up before startup is over, at {startup:g} s"
            )
        back_after = checked_number("back_after is", loss[2], zero=True) if len(loss) == 3 else math.inf
        checked.append((time, loss[1], back_after))
    if len({worker for _, worker, back_after in checked if back_after == math.inf}) == workers:
        raise InvalidInput("losses leaves no worker; expected at least one that stays, or that comes back")
    return checked
