"""A plan that is open for training: its store, its workers, and the engine on a thread of its own.

Everything that touches the engine runs on that thread.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from hippotune.engine.core import Engine
from hippotune.engine.options import EngineOptions
from hippotune.engine.width_allocator import Fits
from hippotune.errors import CheckpointError
from hippotune.executors.base import Executor, Job
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import Position, StudyBegan, StudyEnded
from hippotune.plan.plan import Plan
from hippotune.protocol.events import ActionTaken, CheckpointLost, Halted, StudyClosed, WidthChanged
from hippotune.scheduling.policy import WidthPolicy
from hippotune.shell.interrupts import end_at_once
from hippotune.shell.loop import Loop
from hippotune.shell.loop_thread import LoopThread, PlanClosed
from hippotune.shell.notes import Notes
from hippotune.shell.writer import FactWriter, ImmediateWriter, Writer
from hippotune.store.base import Store
from hippotune.store.homes import open_checkpoints
from hippotune.store.memory import MemoryStore


class Runtime(LoopThread):
    """See the module. Made by `acquire`; `close` lets go of everything. Any thread may call any method."""

    def __init__(
        self,
        store: Store,
        executor: Executor,
        job: Job,
        options: EngineOptions = EngineOptions(),  # noqa: B008
    ) -> None:
        super().__init__("hippo-engine")
        self.store = store
        self.users: Counter[str] = Counter()
        self.tuned: dict[str, StudyBegan] = {}
        self.notes = Notes()
        self.place = job.checkpoints.resolve(), job.storage
        self.files = open_checkpoints(*self.place)
        self._keeps_files = not executor.virtual
        self.set_aside = store.claim(self.files) if self._keeps_files else None
        self.plan = Plan.replay(store.read())
        self.refused_checkpoints = store.drop_refused()
        self.found_results = self.plan.order
        self.found_checkpoints = sum(1 for _ in self.plan.checkpoints())
        self.executor = executor
        is_to_prove = options.proofs is not None and not self.plan.rehearsed
        self._job = replace(job, packing=options.packing, rehearses=is_to_prove)
        self._options = options
        self._policies = [options.width]
        if self._keeps_files:
            self.files.sweep({checkpoint.name for _, checkpoint in self.plan.checkpoints()})
        self._writer: Any = None
        self.loop: Loop
        self.closed = False
        self._closing = threading.RLock()

    def start(self) -> None:
        """Start the engine and its workers."""
        super().start()
        atexit.register(self._close_at_exit)

    async def _start(self) -> None:
        self._writer = self._make_writer()
        delete = self.files.delete if self._keeps_files else (lambda _: None)
        engine = Engine(
            self.plan, self._options, self._fits(), self.store.step_times(), self.executor.suitable
        )
        behind = self._keeps_files and self.files.is_remote
        self.loop = Loop(engine, self.executor, self._writer, delete, self.notes.tell, behind)
        await self.executor.start(self._job, self.loop.emit)
        if self._options.width is not None and not self._options.width.resizes:
            self.loop.slots.gather()

    def _fits(self) -> Fits | None:
        trainer = self._job.trainer
        if trainer is None:
            return self._job.fits
        return trainer.fits if self.executor.virtual or trainer.widens else None

    @contextmanager
    def widened(self, policy: WidthPolicy) -> Iterator[None]:
        """Let a policy that packs nothing choose widths for a while. To be used on the engine's thread."""
        self.widen(policy)
        try:
            yield
        finally:
            self.narrow(policy)

    def widen(self, policy: WidthPolicy) -> None:
        """Let a policy that packs nothing choose widths, until `narrow`. On the engine's thread."""
        self._policies.append(policy)
        self.loop.handle(WidthChanged(policy))

    def narrow(self, policy: WidthPolicy) -> None:
        """Let the policy before this one choose widths again."""
        self._policies.remove(policy)
        self.loop.handle(WidthChanged(self._policies[-1]))

    def _make_writer(self) -> FactWriter:
        if isinstance(self.store, MemoryStore):
            return ImmediateWriter(self.store)
        return Writer(self.store, asyncio.get_running_loop(), self.notes.tell)

    @property
    def busy(self) -> bool:
        """Whether a tuner is at work."""
        return not self.closed and self.loop.tuners > 0

    async def is_whole(self, position: Position) -> bool:
        """Read a checkpoint; one that is missing or damaged is taken out of the plan."""
        checkpoint = self.plan[position.node].checkpoints.get(position.step)
        if checkpoint is None or not self._keeps_files:
            return checkpoint is not None
        try:
            await asyncio.to_thread(self.files.verify, checkpoint)
        except CheckpointError as error:
            self.notes.tell(f"{error}; the steps that depend on it are trained again")
            self.loop.handle(CheckpointLost(position))
            return False
        return True

    def halt(self) -> None:
        """Stop running leases at the end of their step, keep everything they bring, and close.

        Until they have stopped, others may still ask and look.
        """
        with self._closing:
            if not self.closed:
                self.ask(self._halt)
                self.run(self.loop.wait_idle())
                self.close()

    def _halt(self) -> None:
        now, tuned = self.loop.executor.now(), list(self.tuned.values())
        self.tuned.clear()
        for began in tuned:
            ended = StudyEnded(began.study, began.tuning, now, "interrupted")
            self.loop.handle(ActionTaken(ended))
        self.loop.handle(Halted())

    def _close_at_exit(self) -> None:
        end_at_once()
        self.close()

    def close(self) -> None:
        """End the workers, make every fact durable and unlock the plan. May be called twice."""
        with self._closing:
            if self.closed:
                return
            self.closed = True
            atexit.unregister(self._close_at_exit)
            with suppress(Exception):
                self.run(self.executor.close())
            if self._writer is not None and not isinstance(self.store, MemoryStore):
                with suppress(Exception):
                    self._writer.close()
            self._stop()
            self.store.close()


_open: dict[tuple[str, str], Runtime] = {}
_opening = threading.Lock()


def acquire(place: str, key: PlanKey, executor: Executor, study: str, make: Callable[[], Runtime]) -> Runtime:
    """Return the runtime of a plan in this process, making it where it is not open.

    Studies on one plan share it. A study that brings other workers gets them as soon as nothing is running
    on the plan with the present ones.
    """
    with _opening:
        runtime = _open.get((place, key.digest))
        if runtime is not None and runtime.closed:
            runtime = None
        if runtime is not None and runtime.executor.identity != executor.identity and not runtime.busy:
            runtime.close()
            runtime = None
        if runtime is None:
            runtime = make()
            runtime.start()
            _open[place, key.digest] = runtime
        runtime.users[study] += 1
        return runtime


def release(runtime: Runtime, study: str) -> None:
    """Let a study go of a runtime; the last one to do so closes it."""
    with _opening:
        runtime.users -= Counter([study])
        if not runtime.users:
            runtime.close()
        elif study not in runtime.users:
            with suppress(PlanClosed):
                runtime.ask(lambda: runtime.loop.handle(StudyClosed(study)))
        for place in [place for place, each in _open.items() if each.closed]:
            del _open[place]
