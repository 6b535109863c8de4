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
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from time import perf_counter

from hippotune.errors import TrainerError
from hippotune.executors.course import Course
from hippotune.executors.saver import SnapshotSaver
from hippotune.executors.tracebacks import describe
from hippotune.executors.wide import Lead, Part, PeerFailed, PeerLost, follow
from hippotune.protocol.commands import RunLease, UpdateLease
from hippotune.protocol.events import (
    Event,
    LeaseFinished,
    LeaseStarted,
    MetricsReported,
    Progressed,
    SaveFailed,
    StepsMissed,
)
from hippotune.store.files import CheckpointFiles
from hippotune.trainers.session import Session

# How long steps may go by without a word: short against what a person notices, long against a message.
_QUIET_SECONDS = 0.05

Send = Callable[[Sequence[Event]], None]
Inbox = queue.SimpleQueue[RunLease | UpdateLease | Part | None]


class OutOfMemory(Exception):
    """The trainer ran out of memory: it was announced as failed, and this process had better be replaced."""


class _GivenUp(Exception):
    """Something newer has arrived, so nobody waits for the running lease any more."""


class Runner:
    """Runs one lease after the other on one session, in one thread."""

    def __init__(
        self, session: Session, files: CheckpointFiles, saver: SnapshotSaver, inbox: Inbox, send: Send
    ) -> None:
        self._session = session
        self._files = files
        self._saver = saver
        self._inbox = inbox
        self._send = send
        self._waiting: deque[RunLease | Part | None] = deque()
        self._course: Course | None = None
        self._unsaid: list[Event] = []
        self._spoke = perf_counter()

    @property
    def running(self) -> bool:
        """Whether a lease is on its way."""
        return self._course is not None and not self._course.over

    def serve(self) -> None:
        """Run leases as they come in, until None does.

        Raises `OutOfMemory` when a lease ran into that, and `PeerLost` when another worker of it was lost.
        """
        while (command := self._next()) is not None:
            match command:
                case RunLease():
                    self._run(command, nullcontext(self._session))
                case Part(rank=0):
                    self._run(command.lease, Lead(self._session, command))
                case Part():
                    self._follow(command)
                case UpdateLease():
                    self._refuse(command)

    def _next(self) -> RunLease | UpdateLease | Part | None:
        return self._waiting.popleft() if self._waiting else self._inbox.get()

    def _follow(self, part: Part) -> None:
        course = self._course = Course.of(part.lease)
        try:
            if follow(self._session, part, course):
                raise OutOfMemory
        finally:
            course.over = True

    def _run(self, lease: RunLease, taking_part: AbstractContextManager[Session | Lead]) -> None:
        course = self._course = Course.of(lease)
        began = perf_counter()
        try:
            with taking_part as session:
                self._start(course, session, began)
                while not self._arrive(course, session):
                    self._advance(course, session)
        except _GivenUp:
            self._unsaid.clear()
        except PeerLost:
            raise
        except BaseException as error:
            self._fail(course, error)
        finally:
            course.over = True
            self._flush()

    def _start(self, course: Course, session: Session | Lead, began: float) -> None:
        lease = course.lease
        course.doing = "find"
        source = None if lease.source is None else self._files.verify(lease.source)
        course.doing = "start"
        session.start(lease.config, lease.start, source, lease.warm)
        self._unsaid.append(LeaseStarted(lease.lease, perf_counter() - began))
        if lease.probe:
            course.doing = "probe"
            session.probe(lease.required)

    def _advance(self, course: Course, session: Session | Lead) -> None:
        course.doing = "train"
        began = perf_counter()
        session.advance()
        course.seconds += perf_counter() - began
        course.steps += 1
        course.reached += 1
        if not self._spoke_just_now():
            self._note_progress(course)

    def _arrive(self, course: Course, session: Session | Lead) -> bool:
        """Do what is to be done at this step; return whether the lease is over."""
        lease, step = course.lease.lease, course.reached
        while True:
            if (update := self._latest_update(lease)) is not None and (missed := course.update(update)):
                self._unsaid.append(missed)
            if step in course.evaluations and step not in course.evaluated:
                self._evaluate(course, session)
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

    def _evaluate(self, course: Course, session: Session | Lead) -> None:
        course.doing = "evaluate"
        began = perf_counter()
        metrics = session.evaluate()
        seconds = perf_counter() - began
        if missing := course.lease.required - metrics.keys():
            raise TrainerError(
                f"evaluate() returned {sorted(metrics)} at step {course.reached}, without {sorted(missing)}, "
                "which a tuner needs; it must return the same metrics at every step"
            )
        course.evaluated.add(course.reached)
        self._note_progress(course)
        self._unsaid.append(MetricsReported(course.lease.lease, course.reached, metrics, seconds))

    def _save(self, course: Course) -> None:
        lease, step = course.lease, course.reached
        course.saved.add(step)
        self._flush()  # before anything that may take its time
        try:
            snapshot = self._session.snapshot()
        except Exception as error:
            self._unsaid.append(SaveFailed(lease.lease, step, describe(error)))
        else:
            self._saver.save(lease.lease, lease.node_at(step), step, snapshot, alone=not lease.peers)

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

    def _fail(self, course: Course, error: BaseException) -> None:
        self._note_progress(course)
        if isinstance(error, PeerFailed):
            failure = error.failure
            if failure.step in course.evaluated:  # a peer may fail where the lead did not
                failure = replace(failure, step=failure.step + 1)
        else:
            failure = course.failure(error, self._session.phase)
        self._unsaid.append(failure)
        course.reached = failure.step - 1
        if course.doing != "find":
            self._session.drop()
        if isinstance(error, PeerFailed):
            self._flush()
            error.heard()
        elif failure.out_of_memory:
            raise OutOfMemory

    def _note_progress(self, course: Course) -> None:
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
