"""Worker slots of this machine that several plans share: processes come and go with the slots.

A plan's executor asks for as many slots as there is work for, and is given its share (`scheduling/pool.py`).
A slot is a place on the machine: the same cores, whichever plan has it.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterable, Mapping
from functools import partial
from time import monotonic

from hippotune import checks
from hippotune.executors.base import Emit, Job
from hippotune.executors.local.executor import Local
from hippotune.protocol.events import Event, OthersWait, ServedElsewhere, WorkerJoined
from hippotune.scheduling.fairness import SLOT_SECONDS
from hippotune.scheduling.pool import Served, SlotPool
from hippotune.trainers.base import Trainer

# A process is started for a turn of this many times what starting one takes.
_TURN = 20


class Pool:
    """Slots for several plans at once. Each plan gets an executor of its own, by `executor`.

    Parameters
    ----------
    workers : int
        How many processes train at the same time, of all plans together.
    hang_after, threads
        As for `Local`.
    release_after : float
        After how many idle seconds a process ends, while no other plan wants its slot.
    """

    def __init__(
        self,
        workers: int = 2,
        hang_after: float | None = None,
        threads: int | None = None,
        release_after: float = 60.0,
    ) -> None:
        self.workers = checks.whole("workers", workers)
        self.release_after = checks.number("release_after", release_after, least=0)
        self._options = (hang_after, threads)
        Local(workers, *self._options)  # which says what is wrong with them
        self._slots = SlotPool(self.workers)
        self._plans: dict[int, tuple[weakref.ref[Pooled], Emit]] = {}
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._opened: dict[tuple[int, int], float] = {}
        self._start_seconds = 0.0

    def executor(self) -> Local:
        """Return an executor for a plan."""
        return Pooled(self, *self._options)

    # For executors, from any thread.

    def enter(self, executor: Pooled, emit: Emit) -> int:
        """A plan is open; return its number."""
        with self._lock:
            plan = next(self._numbers)
            self._plans[plan] = (weakref.ref(executor), emit)
            self._slots.enter(plan)
            return plan

    def leave(self, plan: int) -> None:
        """A plan is closed, and none of its processes is left."""
        with self._lock:
            if plan in self._plans:
                self._forget(plan)
                self._decide()

    def _forget(self, plan: int) -> None:
        del self._plans[plan]
        self._slots.leave(plan)
        self._opened = {place: at for place, at in self._opened.items() if place[0] != plan}

    def demand(self, plan: int, slots: int) -> None:
        """A plan has work for this many slots."""
        with self._lock:
            self._slots.demand(plan, slots)
            self._decide()

    def serve(self, plan: int, studies: Iterable[Served]) -> None:
        """A plan says which of its studies want something."""
        with self._lock:
            self._slots.serve(plan, studies)

    def release_slot(self, plan: int, slot: int) -> None:
        """A plan needs a slot no more, and has its processes end."""
        with self._lock:
            self._slots.release_slot(plan, slot)
            self._decide()

    def closed(self, plan: int, worker: int) -> None:
        """The last process of a worker has ended."""
        with self._lock:
            executor = self._plans[plan][0]() if plan in self._plans else None
            if executor is not None and executor.forget(worker):
                self._slots.freed(plan, worker % self.workers)
                self._decide()

    def hear(self, plan: int, event: Event) -> None:
        """A plan's processes say something."""
        if isinstance(event, WorkerJoined):
            opened = self._opened.pop((plan, event.worker % self.workers), None)
            if opened is not None:
                self._start_seconds = max(self._start_seconds, monotonic() - opened)
        if (known := self._plans.get(plan)) is not None:
            known[1](event)

    def _decide(self) -> None:
        for plan in [plan for plan, (executor, _) in self._plans.items() if executor() is None]:
            self._forget(plan)  # it was, and its processes are killed
        changes = self._slots.decide(min(_TURN * self._start_seconds, SLOT_SECONDS / 2))
        for plan, slot in changes.grants:
            if (executor := self._plans[plan][0]()) is not None:
                self._opened[plan, slot] = monotonic()
                executor.open([slot])
        for plan, users in changes.elsewhere.items():
            self._plans[plan][1](ServedElsewhere(users))
        for plan, limit in changes.limits.items():
            self._plans[plan][1](OthersWait(limit))


class Pooled(Local):
    """Runs the leases of one plan on those slots of a pool that it is given."""

    def __init__(self, pool: Pool, hang_after: float | None, threads: int | None) -> None:
        super().__init__(pool.workers, hang_after, threads)
        self._pool = pool
        self._plan: int | None = None

    @property
    def release_after(self) -> float:  # type: ignore[override]
        """How long a slot may be idle, while no other plan wants it."""
        return self._pool.release_after

    @property
    def identity(self) -> str:
        """The pool's: all of its executors have the same slots."""
        return f"Pool {id(self._pool)}"

    def warm_up(self, trainer: type[Trainer]) -> None:
        """Do nothing yet: a plan that has no slot holds nothing."""

    async def start(self, job: Job, emit: Emit) -> None:
        """Get ready; processes are started when there is work for them."""
        pool = self._pool
        plan = pool.enter(self, emit)
        try:
            self._prepare(job, partial(pool.hear, plan), partial(pool.closed, plan))
        except BaseException:
            pool.leave(plan)
            raise
        self._plan = plan

    def demand(self, slots: Mapping[int, int], together: int) -> None:
        """Ask for as many slots as there is work for."""
        if self._plan is not None:
            self._pool.demand(self._plan, sum(slots.values()))

    def serve(self, studies: Iterable[Served]) -> None:
        """Say which studies want something, and what each was charged."""
        if self._plan is not None:
            self._pool.serve(self._plan, studies)

    def release(self, worker: int) -> None:
        """Have a process end, when its saves are over: its slot is for others then."""
        if self._plan is not None and (slot := self._slots.get(worker)) is not None:
            self._pool.release_slot(self._plan, worker % self.workers)
            slot.ask_to_close()

    def forget(self, worker: int) -> bool:
        """A worker's last process has ended; return whether that was the last worker of its slot."""
        self._slots.pop(worker, None)
        return self._make is not None and all(
            other % self.workers != worker % self.workers for other in list(self._slots)
        )

    async def close(self) -> None:
        """Let saves that are under way finish, then end all processes."""
        await super().close()
        if self._plan is not None:
            self._pool.leave(self._plan)
            self._plan = None
