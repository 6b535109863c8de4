"""The worker's side of leases: what happens between a `RunLease` and its `LeaseFinished` or `LeaseFailed`.

A lease moves from step to step. At each step count that it comes to, in this order: the latest update is
taken, the state is evaluated and a snapshot of it is taken where that is asked for, and what there is to say
is said in one message. Then the next step is trained, or the lease is over.

Nothing here knows how commands arrive or where events go, so that every executor with real workers runs
the same leases.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

from hippo.engine.commands import RunLease, UpdateLease
from hippo.engine.events import (
    Event,
    LeaseFailed,
    LeaseFinished,
    LeaseStarted,
    MetricsReported,
    Progressed,
    SaveFailed,
    StepsMissed,
)
from hippo.errors import CheckpointError, TrainerError
from hippo.executors.saver import Saver
from hippo.executors.tracebacks import describe
from hippo.store.files import CheckpointFiles, says_disk_full
from hippo.trainers.memory import is_out_of_memory
from hippo.trainers.session import Session

# How long steps may go by without a word: short against what a person notices, long against a message.
_QUIET_SECONDS = 0.05

Send = Callable[[Sequence[Event]], None]
Phase = Literal["build", "setup", "train", "evaluate", "load", "contract"]
Inbox = queue.SimpleQueue[RunLease | UpdateLease | None]


class OutOfMemory(Exception):
    """The trainer ran out of memory: it was announced as failed, and this process had better be replaced."""


class _GivenUp(Exception):
    """Something newer has arrived, so nobody waits for the running lease any more."""


@dataclass(slots=True)
class _Course:
    """What a lease still has to do, and what it has done."""

    lease: RunLease
    end: int
    saves: frozenset[int]
    evaluations: frozenset[int]
    reached: int
    saved: set[int] = field(default_factory=set)
    evaluated: set[int] = field(default_factory=set)
    steps: int = 0
    seconds: float = 0.0
    doing: Literal["find", "start", "probe", "train", "evaluate"] = "find"
    over: bool = False

    @property
    def out_of_reach(self) -> int:
        """The first step count that cannot be reached if what is being done now goes wrong."""
        if self.doing == "train" or (self.doing in ("start", "probe") and self.reached == 0):
            return self.reached + 1
        return self.reached

    def update(self, update: UpdateLease) -> StepsMissed | None:
        """Take new orders; return what among them lies behind and was not done."""
        self.end, self.saves, self.evaluations = update.end, update.saves, update.evaluations
        last = max(self.end, self.reached)
        if last > self.lease.start:  # where a lease is made to stop, its work must not be lost
            self.saves |= {last}
        evaluations = frozenset(step for step in self.evaluations - self.evaluated if step < self.reached)
        saves = frozenset(step for step in self.saves - self.saved if step < self.reached)
        return StepsMissed(self.lease.lease, evaluations, saves) if evaluations or saves else None


class Runner:
    """Runs one lease after the other on one session, in one thread."""

    def __init__(
        self, session: Session, files: CheckpointFiles, saver: Saver, inbox: Inbox, send: Send
    ) -> None:
        self._session = session
        self._files = files
        self._saver = saver
        self._inbox = inbox
        self._send = send
        self._waiting: deque[RunLease | None] = deque()
        self._course: _Course | None = None
        self._unsaid: list[Event] = []
        self._spoke = perf_counter()

    @property
    def running(self) -> bool:
        """Whether a lease is on its way."""
        return self._course is not None and not self._course.over

    def serve(self) -> None:
        """Run leases as they come in, until None does. Raises `OutOfMemory` when a lease ran into that."""
        while (command := self._next()) is not None:
            if isinstance(command, RunLease):
                self._run(command)
            else:
                self._refuse(command)

    def _next(self) -> RunLease | UpdateLease | None:
        return self._waiting.popleft() if self._waiting else self._inbox.get()

    def _run(self, lease: RunLease) -> None:
        course = _Course(lease, lease.end, lease.saves, lease.evaluations, reached=lease.start)
        self._course = course
        try:
            self._start(course)
            while not self._arrive(course):
                self._advance(course)
        except _GivenUp:
            self._unsaid.clear()
        except BaseException as error:
            self._fail(course, error)
        finally:
            course.over = True
            self._flush()

    def _start(self, course: _Course) -> None:
        lease = course.lease
        began = perf_counter()
        course.doing = "find"
        source = None if lease.source is None else self._files.verify(lease.source)
        course.doing = "start"
        self._session.start(lease.config, lease.start, source, lease.warm)
        self._unsaid.append(LeaseStarted(lease.lease, perf_counter() - began))
        if lease.probe:
            course.doing = "probe"
            self._session.probe(lease.required)

    def _advance(self, course: _Course) -> None:
        course.doing = "train"
        began = perf_counter()
        self._session.advance()
        course.seconds += perf_counter() - began
        course.steps += 1
        course.reached += 1
        if not self._spoke_just_now():
            self._note_progress(course)

    def _arrive(self, course: _Course) -> bool:
        """Do what is to be done at this step; return whether the lease is over."""
        lease, step = course.lease.lease, course.reached
        while True:
            if (update := self._latest_update(lease)) is not None and (missed := course.update(update)):
                self._unsaid.append(missed)
            if step in course.evaluations and step not in course.evaluated:
                self._evaluate(course)
            if step in course.saves and step not in course.saved:
                self._save(course)
            if self._inbox.empty():  # otherwise an update may have come that concerns this very step
                break
        if step >= course.end:
            self._note_progress(course)
            self._unsaid.append(LeaseFinished(lease, step))
            return True
        # That the lease has started can wait for what comes next, where something was said just now.
        if self._unsaid and not (isinstance(self._unsaid[-1], LeaseStarted) and self._spoke_just_now()):
            self._flush()
        return False

    def _evaluate(self, course: _Course) -> None:
        course.doing = "evaluate"
        began = perf_counter()
        metrics = self._session.evaluate()
        seconds = perf_counter() - began
        if missing := course.lease.required - metrics.keys():
            raise TrainerError(
                f"evaluate() returned {sorted(metrics)} at step {course.reached}, without {sorted(missing)}, "
                "which a tuner needs; it must return the same metrics at every step"
            )
        course.evaluated.add(course.reached)
        self._note_progress(course)
        self._unsaid.append(MetricsReported(course.lease.lease, course.reached, metrics, seconds))

    def _save(self, course: _Course) -> None:
        lease, step = course.lease, course.reached
        course.saved.add(step)
        self._flush()  # before anything that may take its time
        try:
            snapshot = self._session.snapshot()
        except Exception as error:
            self._unsaid.append(SaveFailed(lease.lease, step, describe(error)))
        else:
            self._saver.save(lease.lease, lease.node_at(step), step, snapshot)

    def _latest_update(self, lease: int) -> UpdateLease | None:
        latest = None
        while not self._inbox.empty():
            command = self._inbox.get()
            if not isinstance(command, UpdateLease):
                self._waiting.append(command)
                raise _GivenUp
            if command.lease == lease:
                latest = command
        return latest

    def _refuse(self, update: UpdateLease) -> None:
        """Answer an update that crossed the end of its lease: saves that it asks for will not come."""
        course = self._course
        if course is not None and course.lease.lease == update.lease:
            missed = frozenset(step for step in update.saves - course.saved if step <= course.reached)
            if missed:
                course.saved |= missed  # answered once
                self._send([StepsMissed(update.lease, frozenset(), missed)])

    def _fail(self, course: _Course, error: BaseException) -> None:
        self._note_progress(course)
        phase: Phase = self._session.phase
        unreadable = course.doing in ("find", "start") and isinstance(error, CheckpointError)
        if unreadable:
            phase = "load"
        elif isinstance(error, TrainerError) or course.doing == "probe" or says_disk_full(error):
            phase = "contract"  # also where a disk is full: that is no trial's fault
        self._unsaid.append(
            LeaseFailed(course.lease.lease, course.out_of_reach, describe(error), phase, unreadable)
        )
        course.reached = course.out_of_reach - 1
        if course.doing != "find":
            self._session.drop()
        if is_out_of_memory(error):
            raise OutOfMemory

    def _note_progress(self, course: _Course) -> None:
        if course.steps:
            self._unsaid.append(Progressed(course.lease.lease, course.reached, course.steps, course.seconds))
            course.steps, course.seconds = 0, 0.0

    def _spoke_just_now(self) -> bool:
        return perf_counter() - self._spoke < _QUIET_SECONDS

    def _flush(self) -> None:
        if self._unsaid:
            self._send(self._unsaid)
            self._unsaid = []
            self._spoke = perf_counter()
