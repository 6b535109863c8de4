"""The worker's side of leases: what happens between a `RunLease` and its `LeaseFinished` or `LeaseFailed`.

`LeaseRun` decides what is done, and in which order; the runner does it, on a session. It takes updates before
each action, and sends all events in one message before training goes on.

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

from hippotune.executors.worker.failures import failure_of, kind_of, may_lie_in_process
from hippotune.executors.worker.fresh_lease import FreshInterpreter
from hippotune.executors.worker.saver import Saver
from hippotune.executors.worker.tracebacks import describe
from hippotune.executors.worker.wide import Lead, Part, PeerFailed, PeerLost, follow
from hippotune.plan.numbers import in_columns
from hippotune.protocol.commands import RunLease, UpdateLease
from hippotune.protocol.events import (
    Event,
    LeaseFinished,
    LeaseStarted,
    MetricsReported,
    NumbersLogged,
    Progressed,
    SaveFailed,
    StateFingerprinted,
    WorkerNoted,
)
from hippotune.protocol.lease_run import LeaseRun
from hippotune.store.storage import CheckpointStorage
from hippotune.trainers.session import Session

# How many seconds of steps go by between two reports: short for a person, long compared with sending one.
QUIET_SECONDS = 0.25

Send = Callable[[Sequence[Event]], None]
Inbox = queue.SimpleQueue[RunLease | UpdateLease | Part | None]


class NeedsFreshProcess(Exception):
    """What made a lease fail may lie in this process: it was announced, and the process is to be replaced."""


class _GivenUp(Exception):
    """A newer order has arrived: the running lease is no longer wanted."""


class Runner:
    """Runs one lease after the other on one session, in one thread."""

    def __init__(
        self,
        session: Session,
        files: CheckpointStorage,
        saver: Saver,
        inbox: Inbox,
        send: Send,
        fresh: FreshInterpreter,
        log: Callable[[LeaseRun], AbstractContextManager[None]] = lambda _: nullcontext(),
        is_fresh: bool = True,
    ) -> None:
        self._log = log
        self._session = session
        self._fresh = fresh
        self._is_pristine = is_fresh
        self._files = files
        self._saver = saver
        self._inbox = inbox
        self._send = send
        self._waiting: deque[RunLease | Part | None] = deque()
        self._lease_run: LeaseRun | None = None
        self._began = 0.0
        self._steps, self._seconds = 0, 0.0  # trained since progress was last reported
        self._unsaid: list[Event] = []
        self._spoke = perf_counter()

    @property
    def running(self) -> bool:
        """Whether a lease is on its way."""
        return self._lease_run is not None and not self._lease_run.over

    def serve(self) -> None:
        """Run leases as they come in, until None does.

        Raises `NeedsFreshProcess` after an error that may lie in this one, `PeerLost` when another worker of
        a lease was lost, and `InterpreterLost` when the process of its own was.
        """
        while (command := self._next()) is not None:
            match command:
                case RunLease(fresh=True) if not self._is_pristine:
                    self._run_fresh(command)
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

    def _run_fresh(self, lease: RunLease) -> None:
        """Have a lease run by an interpreter that has trained nothing; meanwhile this one holds nothing."""
        run = self._lease_run = LeaseRun(lease)
        self._session.drop()
        try:
            self._fresh.run(lease, self._send, self._inbox.empty)
        finally:
            run.over = True

    def _follow(self, part: Part) -> None:
        run = self._lease_run = LeaseRun(part.lease)
        self._is_pristine = False
        self._session.logged = None  # the lead's numbers count
        try:
            with self._log(run):
                is_spent = follow(self._session, part, run)
            if is_spent:
                raise NeedsFreshProcess
        finally:
            run.over = True

    def _run(self, lease: RunLease, taking_part: AbstractContextManager[Session | Lead]) -> None:
        run = self._lease_run = LeaseRun(lease)
        self._is_pristine = False
        self._session.logged = [] if lease.logs else None
        self._began, self._steps, self._seconds = perf_counter(), 0, 0.0
        branches = {segment.end for segment in lease.segments}
        try:
            with self._log(run), taking_part as session:
                while not run.over:
                    if run.at in branches or not self._spoke_just_now():
                        self._report_progress(run)
                    if (update := self._latest_update(lease.lease)) and (missed := run.update(update)):
                        self._unsaid.append(missed)
                    self._act(run, session)
        except _GivenUp:
            self._unsaid.clear()
        except PeerLost:
            raise
        except BaseException as error:
            self._fail(run, error)
        finally:
            run.over = True
            self._flush()

    def _act(self, run: LeaseRun, session: Session | Lead) -> None:
        """Do what comes next."""
        match run.next(perf_counter(), self._saver.is_idle):
            case "train":
                self._train(session)
            case "evaluate":
                self._evaluate(run, session)
            case "fingerprint":
                self._fingerprint(run)
            case "save":
                self._save(run)
            case "start":
                self._start(run.lease, session)
            case "probe":
                session.probe(run.lease.required)
            case "finish":
                self._session.check()
                self._report_progress(run)
                self._pass_on_notes(run)
                self._unsaid.append(LeaseFinished(run.lease.lease, run.at, self._saver.writing))
        run.done()

    def _start(self, lease: RunLease, session: Session | Lead) -> None:
        with nullcontext() if lease.source is None else self._files.read(lease.source) as source:
            session.start(lease.config, lease.start, source, lease.warm)
        if lease.nudged:
            self._session.trainer.nudge()
        self._unsaid.append(LeaseStarted(lease.lease, perf_counter() - self._began))

    def _train(self, session: Session | Lead) -> None:
        # That the lease has started can wait for what comes next, where something was said just now.
        if self._unsaid and not (isinstance(self._unsaid[-1], LeaseStarted) and self._spoke_just_now()):
            self._flush()
        began = perf_counter()
        session.advance()
        self._seconds += perf_counter() - began
        self._steps += 1

    def _evaluate(self, run: LeaseRun, session: Session | Lead) -> None:
        began = perf_counter()
        metrics = session.evaluate()
        seconds = perf_counter() - began
        self._report_progress(run)
        self._unsaid.append(MetricsReported(run.lease.lease, run.at, metrics, seconds))

    def _fingerprint(self, run: LeaseRun) -> None:
        began = perf_counter()
        fingerprint = self._session.fingerprint()
        seconds = perf_counter() - began
        self._report_progress(run)
        self._unsaid.append(
            StateFingerprinted(run.lease.lease, run.at, fingerprint, run.is_evaluated, seconds)
        )

    def _save(self, run: LeaseRun) -> None:
        lease, step = run.lease, run.at
        self._session.check()  # what goes on from here may do so in another process
        self._report_progress(run)  # a loss from here on is not one of the steps before
        self._flush()  # before anything that may take its time
        try:
            self._saver.save(lease.lease, lease.node_at(step), step, self._session.snapshot, run.is_interim)
        except Exception as error:
            told = describe(error)
            self._unsaid.append(SaveFailed(lease.lease, step, told, kind_of(error), run.is_interim))
        self._pass_on_notes(run)

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
        run = self._lease_run
        if run is not None and run.lease.lease == update.lease and (missed := run.update(update)):
            self._send([missed])

    def _fail(self, run: LeaseRun, error: BaseException) -> None:
        self._saver.finish()  # what was saved on the way is announced before
        self._report_progress(run)
        self._pass_on_notes(run)
        if isinstance(error, PeerFailed):
            failure = replace(error.failure, step=run.fail(error.failure.step))
        else:
            failure = failure_of(run, error, self._session.phase)
        self._unsaid.append(failure)
        self._session.drop()
        if isinstance(error, PeerFailed):
            self._flush()
            error.heard()
        elif may_lie_in_process(failure.kind):
            raise NeedsFreshProcess

    def _report_progress(self, run: LeaseRun) -> None:
        if self._steps:
            self._report_numbers(run)
            self._unsaid.append(Progressed(run.lease.lease, run.at, self._steps, self._seconds))
            self._steps, self._seconds = 0, 0.0

    def _report_numbers(self, run: LeaseRun) -> None:
        if self._session.logged:
            self._unsaid.append(NumbersLogged(run.lease.lease, *in_columns(self._session.logged)))
            self._session.logged = []

    def _pass_on_notes(self, run: LeaseRun) -> None:
        while self._session.notes:
            self._unsaid.append(WorkerNoted(run.lease.worker, self._session.notes.pop(0)))

    def _spoke_just_now(self) -> bool:
        return perf_counter() - self._spoke < QUIET_SECONDS

    def _flush(self) -> None:
        if self._unsaid:
            self._send(self._unsaid)
            self._unsaid = []
            self._spoke = perf_counter()
