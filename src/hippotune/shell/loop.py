"""The thin shell around the engine: carries commands out, feeds events back, answers after commits.

One loop runs on one asyncio event loop. The engine is only ever touched from there; executors may emit from
any thread. Tuners run on the same event loop, so a result is delivered, and reacted to, between two events.

In virtual time the clock moves only while every tuner waits: what a tuner submits in answer to a result is
submitted at the moment of that result.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from hippotune.engine.core import Engine
from hippotune.errors import CheckpointError, HippoError, NotExact, StoreError, TrainerError
from hippotune.executors.base import Executor
from hippotune.plan.facts import Checkpoint, Fact, SpanRecorded
from hippotune.protocol.commands import (
    Abort,
    Answer,
    Command,
    DropCheckpoint,
    Note,
    Record,
    ReleaseWorker,
    RunLease,
    UpdateLease,
    Wake,
)
from hippotune.protocol.events import (
    CheckpointDeleted,
    Event,
    Halted,
    MetricsRequired,
    Paused,
    Request,
    RequestWithdrawn,
    Resumed,
    Woken,
    WorkerLost,
)
from hippotune.protocol.failures import metrics_lacking
from hippotune.shell.fact_log import FactLog
from hippotune.shell.listener import Deliver, Listener
from hippotune.shell.readings import Readings
from hippotune.shell.slot_demand import SlotDemand
from hippotune.shell.waiters import Waiters
from hippotune.shell.writer import FactWriter


class Loop:
    """See the module. Made and used on one running event loop.

    Answers are given as soon as they are known, each with its place in the plan's history. An answer is
    durable, and counts, once `committed` has reached that place.
    """

    def __init__(
        self,
        engine: Engine,
        executor: Executor,
        writer: FactWriter,
        delete: Callable[[Checkpoint], None] = lambda _: None,
        note: Callable[[str], None] = lambda _: None,
        deletes_behind: bool = False,
    ) -> None:
        self.engine = engine
        self.executor = executor
        self.readings = Readings(engine, executor)
        self.error: BaseException | None = None
        self._broken = False
        self._waiting = 0
        self._delete = delete
        self._deletes_behind = deletes_behind
        self.note = note
        self.log = FactLog(writer, engine.plan.order, note)
        self._aio = asyncio.get_running_loop()
        self._inbox: deque[Event] = deque()
        self._woken = False
        self._expected: set[str] = set()
        self._deliver: dict[int, Deliver] = {}
        self._next_request = 0
        self._idle_waiters = Waiters()
        self._proved = Waiters()
        self._listening: list[Listener] = []
        self._on_idle: list[Callable[[], None]] = []
        self._spans: list[list[SpanRecorded]] = []
        self.slots = SlotDemand(engine, executor, self.handle, lambda: self.tuners > 0)

    # For tuners, on the event loop.

    @property
    def committed(self) -> int:
        """The place in the plan's history up to which facts are durable."""
        return self.log.committed

    def new_request(self, deliver: Deliver) -> int:
        """Return a number for a request; its answers go to `deliver`."""
        self._next_request += 1
        self._deliver[self._next_request] = deliver
        return self._next_request

    def dismiss(self, request: int, step: int, error: str) -> None:
        """Withdraw a request for a user, and answer that it is not met."""
        self.handle(RequestWithdrawn(request))
        self._tell(Answer(request, step, self.engine.plan.order, None, error, final=True))

    def require(self, metrics: frozenset[str], study: str = "") -> None:
        """A study's tuner reads these metrics. Raises `TrainerError` where results are known to lack one."""
        plan = self.engine.plan
        known = next((each for node in plan.nodes for _, each in node.metrics.values()), None)
        if known is not None and (missing := [name for name in metrics if not plan.has_measured(name)]):
            raise TrainerError(metrics_lacking(missing, known))
        self.handle(MetricsRequired(metrics, study))

    def forget_request(self, request: int) -> None:
        """Deliver nothing more for a request."""
        self._deliver.pop(request, None)

    def expect(self, studies: Iterable[str]) -> None:
        """Start nothing until each of these studies has asked for all that it asks for at first."""
        self._expected.update(studies)
        self.handle(Paused())

    def has_begun(self, study: str) -> None:
        """A study has asked for something and waits, or it will never ask."""
        if study in self._expected:
            self._expected.discard(study)
            if not self._expected:
                self.handle(Resumed())
                self._push_time()

    def on_idle(self, call: Callable[[], None]) -> None:
        """Call `call` whenever nothing runs and all answers were delivered."""
        self._on_idle.append(call)

    def off_idle(self, call: Callable[[], None]) -> None:
        """Do not tell `call` any more."""
        self._on_idle.remove(call)

    @contextmanager
    def spans(self) -> Iterator[list[SpanRecorded]]:
        """Collect the worker time that is recorded inside the block."""
        spans: list[SpanRecorded] = []
        self._spans.append(spans)
        try:
            yield spans
        finally:
            self._spans = [each for each in self._spans if each is not spans]

    def handle(self, event: Event) -> None:
        """Take in one event now."""
        if self._broken:
            return
        try:
            self._carry_out(self.engine.handle(event, self.executor.now()))
        except Exception as error:
            self._break(error)
        if not self.engine.leases:
            self._tell_idle()
        self._proved.wake()
        self.slots.look_soon()

    def note_repeated(self, requests: Iterable[Request]) -> None:
        """Say where a branch that is about to be asked for begins at no checkpoint."""
        for request in requests:
            if (repeated := self.engine.plan.repeated(request.config, request.step)) is not None:
                at, kept = repeated
                self.note(
                    f"a branch at step {at} has no checkpoint there: its trunk is trained again from "
                    f"step {kept} to {at}"
                )

    def alarm(self, time: float, call: Callable[[], None]) -> None:
        """Have something called on the event loop at a time of the executor's clock."""
        if self.executor.virtual:
            self.executor.alarm(time, call)
        else:
            self._aio.call_later(max(time - self.executor.now(), 0.0), call)

    # For executors, from any thread.

    def emit(self, event: Event) -> None:
        """Queue an event."""
        self._inbox.append(event)
        if not self._woken:
            self._woken = True
            self._aio.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._woken = False
        while self._inbox:
            self.handle(self._inbox.popleft())

    # Commands.

    def _carry_out(self, commands: Sequence[Command]) -> None:
        facts: tuple[Fact, ...] = ()
        answers: list[Answer] = []
        later: list[DropCheckpoint] = []
        for command in commands:
            match command:
                case RunLease():
                    if not self._is_lost(*command.workers):
                        study, trial = self.engine.asked_by(command.lease)
                        self.executor.carry_out(replace(command, study=study, trial=trial))
                case UpdateLease():
                    self.executor.carry_out(command)
                case ReleaseWorker(worker):
                    self.executor.release(worker)
                case Record():
                    facts = command.facts
                    for spans in self._spans:
                        spans += [fact for fact in facts if isinstance(fact, SpanRecorded)]
                case Answer():
                    answers.append(command)
                case DropCheckpoint():
                    later.append(command)
                case Wake(at):
                    self.alarm(at, partial(self.handle, Woken(at)))
                case Note(text):
                    self.note(text)
                case Abort(studies=studies) if studies - {""}:
                    for tuner in [each for each in self._listening if each.study in studies]:
                        tuner.broken(_error_of(command))
                case Abort():
                    self._give_up(_error_of(command))
        if facts or later:
            self._record(facts, later)
        for answer in answers:
            self._tell(answer)

    def _is_lost(self, *workers: int) -> bool:
        """Whether a worker is lost, unknown to the engine yet: its successor must not get its lease."""
        return any(isinstance(event, WorkerLost) and event.worker in workers for event in list(self._inbox))

    def _record(self, facts: Sequence[Fact], later: Sequence[DropCheckpoint]) -> None:
        def committed(error: BaseException | None) -> None:
            if error is not None:
                self._break(error)
                return
            for tuner in list(self._listening):
                tuner.facts_committed()
            for command in later:
                self._remove(command)
            if not self.log.under_way:
                self._tell_idle()

        self.log.write(facts, self.engine.plan.order, committed)

    def _remove(self, command: DropCheckpoint) -> None:
        deleted = CheckpointDeleted(command.checkpoint)
        if self._deletes_behind:
            future = self._aio.run_in_executor(None, self._try_to_delete, command.checkpoint)
            future.add_done_callback(lambda _: self.handle(deleted))
        else:
            self._try_to_delete(command.checkpoint)
            self.handle(deleted)

    def _try_to_delete(self, checkpoint: Checkpoint) -> None:
        with suppress(OSError, StoreError):  # what stays is swept away when the plan is next opened
            self._delete(checkpoint)

    def _tell(self, answer: Answer) -> None:
        deliver = self._deliver.get(answer.request)
        if deliver is not None:
            if answer.final:
                del self._deliver[answer.request]
            deliver(answer)

    # The end.

    def _give_up(self, error: BaseException) -> None:
        """Tuners hear of the error, and leases stop at their step's end; what they bring is still kept."""
        if self.error is not None:
            return
        self.error = error
        for tuner in list(self._listening):
            tuner.broken(error)
        self._proved.wake()
        self.emit(Halted())

    def _break(self, error: BaseException) -> None:
        """Facts cannot be kept, or do not fit together: nothing more is taken in."""
        self._broken = True
        self._give_up(error)
        self._tell_idle()

    @property
    def _is_idle(self) -> bool:
        return not self.engine.leases and not self.log.under_way

    async def wait_idle(self) -> None:
        """Wait until no lease runs, no save is under way and every fact is committed."""
        while not (self._is_idle or self._broken):
            await self._ending()

    async def proved(self, audits: bool) -> None:
        """Wait until nothing is provisional any more: for a tuner that has all its results.

        Without `audits`, the rehearsal is enough: for one whose time is up.
        """
        proofs = self.engine.proofs
        self.tuner_waits()
        try:
            while (proofs.is_open if audits else proofs.rehearsal.is_open) and self.error is None:
                await self._proved.wait()
        finally:
            self.tuner_goes_on()

    async def wait_idle_or_tuned(self) -> None:
        """Wait until what runs has ended and is committed, or until a tuner is at work."""
        while not (self.tuners or self._is_idle or self._broken):
            await self._ending()

    def _ending(self) -> asyncio.Future[None]:
        """Return what is done when the loop may have become idle, and let virtual time go on until then."""
        future = self._idle_waiters.wait()
        self._push_time()
        return future

    def _tell_idle(self) -> None:
        if self._is_idle:
            for call in list(self._on_idle):
                call()
        self._idle_waiters.wake()

    # Tuners at work, and virtual time.

    @property
    def tuners(self) -> int:
        """How many tuners are at work."""
        return len(self._listening)

    def tuner_begins(self, listener: Listener) -> None:
        """A tuner is at work."""
        self._listening.append(listener)
        if self.error is not None:
            listener.broken(self.error)
        self._idle_waiters.wake()

    def tuner_ends(self, listener: Listener) -> None:
        """A tuner asks for nothing more: what the others wait for may go on. May be called twice."""
        if listener not in self._listening:
            return
        self._listening.remove(listener)
        self.slots.look_soon()
        if self.tuners:
            self._push_time()

    def tuner_waits(self) -> None:
        """A tuner has nothing to do until it hears something."""
        self._waiting += 1
        self._push_time()

    def tuner_goes_on(self) -> None:
        """A tuner is about to react."""
        self._waiting -= 1

    def _push_time(self) -> None:
        self._aio.call_soon(self._advance)

    def _advance(self) -> None:
        while (0 < self.tuners == self._waiting and not self._expected) or self._idle_waiters:
            if not self.executor.advance():
                return
            self._drain()


def _error_of(abort: Abort) -> HippoError:
    """Return the exception that ends a study."""
    if abort.refutation is not None:
        return NotExact(abort.error, abort.refutation.path, abort.refutation.step)
    return CheckpointError(abort.error) if abort.disk_full else TrainerError(abort.error)
