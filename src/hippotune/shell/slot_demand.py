"""Tells an executor that can release slots how many to have: as many as there is work for.

More are requested at once. An idle slot is released after a while, sooner where no tuner is at work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hippotune.engine.core import Engine
from hippotune.executors.base import Executor
from hippotune.protocol.events import Event, SlotsAwaited, WorkerLeaving

# Events come in bursts: what they come to is looked at afterwards.
_BURST_SECONDS = 0.02
# How long idle slots are kept after the last tuner: one that follows finds them warm.
_AFTERWARDS_SECONDS = 10.0
# How long widths that are chosen once wait for all slots.
_GATHER_SECONDS = 60.0


class SlotDemand:
    """Tells an executor what is needed, and the engine which workers leave. On the loop's event loop."""

    def __init__(
        self,
        engine: Engine,
        executor: Executor,
        handle: Callable[[Event], None],
        is_tuning: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._executor = executor
        self._handle = handle
        self._is_tuning = is_tuning
        self._aio = asyncio.get_running_loop()
        self._idle_since: dict[int, float] = {}
        self._next: asyncio.TimerHandle | None = None

    def gather(self) -> None:
        """Have widths that are chosen once wait for all slots, but not for ever."""
        if not self._executor.virtual:  # there all are up at once
            self._handle(SlotsAwaited(self._executor.workers))
            self._aio.call_later(_GATHER_SECONDS, self._handle, SlotsAwaited(0))

    def look_soon(self, seconds: float = _BURST_SECONDS) -> None:
        """Something has changed, or will have."""
        if self._executor.release_after is None:
            return
        at = self._aio.time() + seconds
        if self._next is None or self._next.cancelled() or self._next.when() > at:
            if self._next is not None:
                self._next.cancel()
            self._next = self._aio.call_at(at, self._look)

    def _look(self) -> None:
        self._next = None
        self._executor.serve(self._engine.served(self._executor.now()))
        demand = self._engine.demand(self._executor.workers)
        self._executor.demand(demand.slots, demand.together)
        now, after = self._aio.time(), self._executor.release_after
        assert after is not None
        if not self._is_tuning():
            after = min(after, _AFTERWARDS_SECONDS)
        idle = self._engine.workers.idle_slots()
        self._idle_since = {slot: self._idle_since.get(slot, now) for slot in idle}
        spare = self._engine.workers.kinds_there()
        spare.subtract(demand.slots)
        for slot in sorted(idle, reverse=True):
            kind = self._engine.workers.kind_of(slot)
            if spare[kind] <= 0:
                continue
            spare[kind] -= 1
            left = self._idle_since[slot] + after - now
            if left > 0:
                self.look_soon(left)
                continue
            for worker in idle[slot]:
                self._handle(WorkerLeaving(worker))
