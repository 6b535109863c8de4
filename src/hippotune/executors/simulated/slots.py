"""Worker slots in virtual time: the lease that each is on, what it writes, and when it is lost."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.protocol.commands import RunLease
from hippotune.protocol.lease_run import LeaseRun

Loss = tuple[float, int] | tuple[float, int, float]


@dataclass(slots=True, eq=False)
class TimedRun:
    """A lease in time. Since `since` its worker trains on from `step`, to be at `goal` next.

    `turn` counts what was to happen next: only the latest of it does. Of one that `has_failed`, no interim
    checkpoint is announced any more.
    """

    run: LeaseRun
    step: int = 0
    since: float = 0.0
    goal: int = 0
    turn: int = 0
    has_failed: bool = False

    @property
    def lease(self) -> RunLease:
        """The lease."""
        return self.run.lease


@dataclass(slots=True, eq=False)
class Slot:
    """A worker. `life` counts its losses; `written` holds when its last two saves are, or were, done.

    `lease` is the one that it trains, by its own run, or with others, by that of their leader. While it
    `is_pristine`, it has trained nothing.
    """

    worker: int
    up: bool = False
    life: int = 0
    timed: TimedRun | None = None
    lease: RunLease | None = None
    is_pristine: bool = True
    written: deque[float] = field(default_factory=lambda: deque(maxlen=2))


def checked_losses(losses: Iterable[Loss], workers: int, startup: float) -> list[tuple[float, int, float]]:
    """Return losses as (time, worker, back_after), where infinity stands for never."""
    checked: list[tuple[float, int, float]] = []
    for loss in checks.several("losses", losses):
        if not isinstance(loss, tuple | list) or len(loss) not in (2, 3) or loss[1] not in range(workers):
            raise InvalidInput(
                f"losses holds {loss!r}; expected (time, worker) or (time, worker, back_after), "
                f"with a worker from 0 to {workers - 1}"
            )
        time = checks.number("the time of a loss", loss[0], least=0)
        if time < startup:
            raise InvalidInput(
                f"losses holds {loss!r}; no worker is up before startup is over, at {startup:g} s"
            )
        back_after = checks.number("back_after", loss[2], least=0) if len(loss) == 3 else math.inf
        checked.append((time, loss[1], back_after))
    if len({worker for _, worker, back_after in checked if back_after == math.inf}) == workers:
        raise InvalidInput("losses leaves no worker; expected at least one that stays, or that comes back")
    return checked
