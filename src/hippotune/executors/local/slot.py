"""A worker slot: it runs one process after the other, and reports them to the engine.

    starting ──▶ joined ──▶ lost ──▶ starting ...        three starts in a row that fail: given up

A slot has a thread of its own, which starts its processes, reads their messages and reaps them. The system
kills a process when the thread that started it ends, so that thread lasts as long as the process.
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic

from hippotune.executors.base import Emit
from hippotune.executors.local.hang_timeout import HangTimeout
from hippotune.executors.local.process import WorkerProcess
from hippotune.executors.local.worker_groups import WorkerGroups
from hippotune.executors.shipping import encode
from hippotune.executors.worker.wide import Part
from hippotune.protocol.commands import ExecutorCommand, RunLease
from hippotune.protocol.events import (
    CheckpointSaved,
    Event,
    LeaseFailed,
    LeaseFinished,
    Progressed,
    SaveFailed,
    WorkerJoined,
    WorkerLost,
)
from hippotune.protocol.failures import LossKind

_log = logging.getLogger("hippotune")

_MOST_STARTS = 3
_START_PAUSE = 0.5  # seconds, doubled after every start that the system refuses
_CLOSE = pickle.dumps(None)


def patience_with(command: ExecutorCommand | Part) -> int:
    """Return how much longer than usual a worker may be silent after a command.

    0 where it reports nothing, as a peer.
    """
    lease = command.lease if isinstance(command, Part) and command.rank == 0 else command
    return lease.patience if isinstance(lease, RunLease) else 0


class Slot:
    """Keeps one worker process alive.

    `slots` are all of the executor's, this one among them, by their workers. `number` is the slot that it is
    on, where several share one. `closed` is called when its last process has ended.
    """

    def __init__(
        self,
        worker: int,
        begin: Callable[[int], WorkerProcess],
        greeting: bytes,
        emit: Emit,
        hang_timeout: HangTimeout,
        slots: Mapping[int, Slot],
        groups: WorkerGroups | None = None,
        number: int | None = None,
        closed: Callable[[int], None] = lambda worker: None,
    ) -> None:
        self.worker = worker
        self._number = number
        self._closed = closed
        self.given_up: str | None = None
        self._begin = begin
        self._greeting = greeting
        self._emit = emit
        self._hang_timeout = hang_timeout
        self._slots = slots
        self._groups = WorkerGroups() if groups is None else groups
        self._ended_for: str | None = None
        self._lock = threading.RLock()  # `abandon` may be called by the garbage collector, in any thread
        self._process: WorkerProcess | None = None
        self._joined = False
        self._closing = threading.Event()
        self._busy_since: float | None = None
        self._saving: tuple[int, int] | None = None  # what is still written of a lease that is over
        self._last_save: tuple[int, int] | None = None
        self._patience = 1
        self._thread = threading.Thread(target=self._live, name=f"worker-{worker}", daemon=True)

    @property
    def folder(self) -> Path | None:
        """A folder that is there as long as the process; None where there is no process."""
        with self._lock:
            return None if self._process is None or not self._joined else self._process.folder

    def start(self) -> None:
        """Bring the first process up; returns at once."""
        self._thread.start()

    def carry_out(self, command: ExecutorCommand | Part) -> bool:
        """Send a command; False where there is no process, whose loss is announced then."""
        if self.given_up is not None and isinstance(command, RunLease):
            self._emit(LeaseFailed(command.lease, command.start, self.given_up, "contract"))
        return self.deliver(encode(command), patience_with(command))

    def deliver(self, message: bytes, patience: int) -> bool:
        """Do the same with a command's message; `patience` is for what it begins, 0 if that is nothing."""
        with self._lock:
            if self._process is None or not self._joined or self._closing.is_set():
                return False
            if patience:  # first: what it begins may be over before this goes on
                self._busy_since, self._patience, self._saving = monotonic(), patience, None
            self._process.send(message)
            return True

    def end(self, reason: str) -> None:
        """Have the process replaced."""
        with self._lock:
            if self._process is not None and self._joined:
                self._ended_for = reason
                self._process.kill()

    def ask_to_close(self) -> None:
        """Let the process finish its saves and end; returns at once."""
        with self._lock:
            self._closing.set()
            self._busy_since = monotonic()
            if self._process is not None and self._joined:
                self._process.send(_CLOSE)
            elif self._process is not None:
                self._process.kill()

    def join(self) -> None:
        """Wait until the process has ended."""
        self._thread.join()

    def abandon(self) -> None:
        """Kill the process at once."""
        with self._lock:
            self._closing.set()
            if self._process is not None:
                self._process.kill()

    # The slot's own thread.

    def _live(self) -> None:
        failed_starts = 0
        while not self._closing.is_set():
            joined, reason, kind = self._run_one_process()
            if self._closing.is_set():
                break
            failed_starts = 0 if joined else failed_starts + 1
            if joined:
                self._say_lost(reason, kind)
            elif failed_starts == _MOST_STARTS:
                self._give_up(reason)
                self._closing.wait()
            elif kind == "infrastructure":  # the system may have room for one more process in a moment
                pause = _START_PAUSE * 2.0**failed_starts
                _log.warning("%s; it is tried again after %.0f s", reason, pause)
                self._closing.wait(pause)
        self._closed(self.worker)

    def _say_lost(self, reason: str, kind: LossKind) -> None:
        with self._groups.lock:
            others = self._groups.lose(self.worker)
            self._emit(WorkerLost(self.worker, reason, kind))
        for other in others:
            self._slots[other].end(f"was ended: worker {self.worker}, which it trained with, is lost")

    def _run_one_process(self) -> tuple[bool, str, LossKind]:
        """Start a process and wait for its end; return whether it joined, and why it ended."""
        try:
            process = self._begin(self.worker)
        except OSError as error:
            return False, f"a worker process cannot be started: {error}", "infrastructure"
        try:
            with self._lock:
                self._process = process
                if self._closing.is_set():
                    process.kill()
            process.send_first(self._greeting)
            reason, kind = self._listen(process)
        finally:
            process.kill()  # also where `emit` raises: the study is closing
            with self._lock:
                joined, self._joined = self._joined, False
                self._process = self._busy_since = self._ended_for = None
        return joined, reason, kind

    def _listen(self, process: WorkerProcess) -> tuple[str, LossKind]:
        """Pass on the events of a process until it ends; return why it ended."""
        heard = monotonic()
        wait = self._hang_timeout.shortest
        while True:
            try:
                said = process.receive(wait)
            except EOFError:
                if self._closing.is_set():
                    process.wait_closed()
                return process.reap(self._ended_for), "died"
            if said is not None:
                heard = monotonic()
                wait = self._hang_timeout.shortest
                with self._groups.lock:
                    for event in said:
                        self._pass_on(event)
                continue
            limit = self._hang_timeout.limit(self._closing.is_set()) * self._patience
            silence = 0.0 if self._busy_since is None else monotonic() - max(heard, self._busy_since)
            if silence >= limit:
                hung = (
                    f"hung: it finished no step, evaluation, load or save for {silence:.0f} s and was killed "
                    "(hang_after= sets how long to wait)"
                )
                return process.reap(hung), "hung"
            wait = min(limit - silence, self._hang_timeout.shortest)

    def _pass_on(self, event: Event) -> None:
        if isinstance(event, WorkerJoined):
            with self._lock:
                if self._closing.is_set():
                    return
                self._joined = True
            event = WorkerJoined(self.worker, self._number, event.platform)
        elif isinstance(event, CheckpointSaved | SaveFailed):
            self._last_save = (event.lease, event.step)
            if self._last_save == self._saving and not self._closing.is_set():
                self._busy_since = self._saving = None
        elif isinstance(event, LeaseFinished | LeaseFailed) and not self._closing.is_set():
            saving = event.saving if isinstance(event, LeaseFinished) else None
            self._saving = saving if saving != self._last_save else None
            self._busy_since = None if self._saving is None else monotonic()
        elif isinstance(event, Progressed):
            self._hang_timeout.observe(event)
        if self._groups.counts(event):
            self._emit(event)

    def _give_up(self, reason: str) -> None:
        """Leave the work to the other slots; the last one reports the failure to the engine."""
        self.given_up = (
            f"worker processes die before they can work, {_MOST_STARTS} in a row. The last: {reason}"
        )
        if all(slot.given_up is not None for slot in list(self._slots.values())):
            self._emit(WorkerJoined(self.worker, self._number))
        else:
            _log.warning("worker %d is given up, the others go on: %s", self.worker, self.given_up)
