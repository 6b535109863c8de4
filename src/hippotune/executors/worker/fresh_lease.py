"""A lease in a fresh interpreter: another process of a worker's own program, which ends with the lease.

It gets the same job and has the same environment; its events are passed on as if they were the worker's. It
is forked off a server that stands by, with all imports done; where none does any more, it is started anew.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from hippotune.executors import lease_log
from hippotune.executors.local.fork_server import ForkClient
from hippotune.executors.local.process import WorkerProcess
from hippotune.executors.shipping import encode
from hippotune.protocol.commands import RunLease
from hippotune.protocol.events import Event, LeaseFailed, LeaseFinished, LeaseStarted, WorkerJoined

# How many seconds to wait for an event before checking whether the lease is still wanted.
_LOOK_SECONDS = 1.0
_CLOSE = pickle.dumps(None)


class InterpreterLost(Exception):
    """The fresh interpreter died before the lease was over; the cause is not known."""


class FreshInterpreter:
    """Runs leases of one worker, each in a new process. `greeting` is the worker's first message."""

    def __init__(self, worker: int, greeting: bytes, log: Path, standby: ForkClient | None = None) -> None:
        self._worker = worker
        self._greeting = greeting
        self._standby = standby
        self._log = lease_log.of_fresh(log)

    def run(
        self, lease: RunLease, send: Callable[[Sequence[Event]], None], is_wanted: Callable[[], bool]
    ) -> None:
        """Run a lease to its end and pass its events on, unless it is not wanted any more."""
        began = perf_counter()
        process = self._start()
        try:
            process.send_first(self._greeting)
            process.send(encode(replace(lease, fresh=False)))
            while is_wanted():
                try:
                    said = process.receive(_LOOK_SECONDS)
                except EOFError:
                    raise InterpreterLost(process.reap()) from None
                events = [
                    replace(event, seconds=perf_counter() - began)
                    if isinstance(event, LeaseStarted)
                    else event
                    for event in said or ()
                    if not isinstance(event, WorkerJoined)
                ]
                is_over = any(isinstance(event, LeaseFinished | LeaseFailed) for event in events)
                if is_over:  # what user code does at the end of a program is part of the lease
                    process.send(_CLOSE)
                    process.wait_closed()
                if events:
                    send(events)
                if is_over:
                    return
        finally:
            process.kill()
            with suppress(OSError):
                lease_log.keep(self._log)

    def _start(self) -> WorkerProcess:
        if self._standby is not None:
            cores = sorted(os.sched_getaffinity(0))
            try:
                return WorkerProcess(self._worker, self._log, os.environ, cores, modules=self._standby)
            except EOFError:  # it had nothing to do for too long
                self._standby = None
        return WorkerProcess(self._worker, self._log, os.environ, cores=())
