"""Time that goes on while no server runs: a study's deadline outlives the server that was told of it.

It is measured by the machine's own clock, which starts with the machine and cannot be set. Only where the
machine was restarted in between, the wall clock says how much time has passed.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Moment(Struct, frozen=True):
    """A moment: seconds since the start of the machine that is known by `boot`, and since the epoch."""

    boot: str
    machine: float
    wall: float

    @classmethod
    def now(cls) -> Moment:
        """Return this moment."""
        boot = ""
        with suppress(OSError):
            boot = _BOOT.read_text().strip()
        return cls(boot, time.clock_gettime(_CLOCK), time.time())

    def passed(self) -> float:
        """Return how many seconds have gone by since."""
        now = Moment.now()
        if self.boot and now.boot == self.boot:
            return now.machine - self.machine
        return max(now.wall - self.wall, 0.0)
