"""The program of a worker: ``python -m hippotune.executors.worker WORKER CORES LOG DESCRIPTOR [ECHO]``.

The main thread trains: user code runs there, as many libraries want it. A second reads commands from the
connection with the given descriptor, and ends the process when the other end is gone. A third, the saver,
writes checkpoints. What user code prints goes to a log file, and to the descriptor ECHO if one is given; it
never mixes with messages.

The parent speaks first, with a `Parcel`; then come `RunLease`, `Part` and `UpdateLease`, and None to close.
This process sends lists of events, the first of them `WorkerJoined`.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import queue
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from hippotune import portable, scratch
from hippotune.errors import HippoError
from hippotune.executors.base import Job
from hippotune.executors.lease_log import LeaseLog
from hippotune.executors.leaving import freeze, leave
from hippotune.executors.local.fork_server import ForkClient
from hippotune.executors.local.process import INTERPRETER_LOST, PEER_LOST, REPLACED
from hippotune.executors.platform import platform_of_this_process
from hippotune.executors.shipping import unpack
from hippotune.executors.worker.fresh_lease import FreshInterpreter, InterpreterLost
from hippotune.executors.worker.runner import Inbox, NeedsFreshProcess, Runner
from hippotune.executors.worker.saver import Saver
from hippotune.executors.worker.tracebacks import describe
from hippotune.executors.worker.wide import Part, PeerLost
from hippotune.gc_pause import gc_paused_for_imports
from hippotune.protocol.commands import RunLease
from hippotune.protocol.events import Event, LeaseFailed, WorkerJoined
from hippotune.store.homes import open_checkpoints
from hippotune.trainers.session import Session


class _ParentChannel:
    """The connection to the parent: messages in by one thread, out by any."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._connection = Connection(descriptor)
        # A process that user code forks must not keep the channel open when this one is dead.
        portable.after_fork(self._connection.close)
        self._sending = threading.Lock()

    def send(self, events: Sequence[Event]) -> None:
        """Send events. If the parent is gone, the reading thread is about to end the process."""
        message = pickle.dumps(events, protocol=5)
        with self._sending, suppress(OSError):
            self._connection.send_bytes(message)

    def receive(self) -> bytes:
        """Wait for a message. Raises `EOFError` or `OSError` when the parent is gone."""
        return self._connection.recv_bytes()

    def close(self) -> None:
        """Say nothing more."""
        with self._sending:
            self._connection.close()


def main(
    descriptor: int,
    worker: int,
    cores: Sequence[int],
    log: Path,
    echo: int | None,
    is_fresh: bool,
    standby: int | None = None,
) -> None:
    """Work until told to close. What is printed goes to `log`, and to the descriptor `echo`.

    A process that `is_fresh` was not forked: its addresses are its own. The descriptor `standby` leads to a
    process that others, with other addresses, can be forked off.
    """
    faulthandler.enable()
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    lease_log = LeaseLog(log, echo)
    channel = _ParentChannel(descriptor)
    greeting = channel.receive()
    parcel = pickle.loads(greeting)
    try:
        with gc_paused_for_imports():
            job = unpack(parcel)
        session = Session(job.opened, job.settings, job.seed, watch=bool(job.code), start=job.start)
    except HippoError as error:
        channel.send([WorkerJoined(worker)])
        _refuse_everything(channel, describe(error))
        return
    freeze()
    inbox: Inbox = queue.SimpleQueue()
    files = open_checkpoints(_folder_of(job), job.storage)
    saver = Saver(files, channel.send)
    others = None if standby is None else ForkClient(socket.socket(fileno=standby))
    fresh = FreshInterpreter(worker, greeting, log, others)
    runner = Runner(session, files, saver, inbox, channel.send, fresh, lease_log.of, is_fresh)

    def close() -> None:
        saver.finish()
        if runner.running:  # in the middle of a step that is no longer wanted
            leave(0)
        channel.close()
        inbox.put(None)

    threading.Thread(target=_read, args=[channel, inbox, close], name="reader", daemon=True).start()
    channel.send([WorkerJoined(worker, platform=platform_of_this_process())])
    try:
        runner.serve()
        session.drop()
    except NeedsFreshProcess:
        saver.finish()
        leave(REPLACED)
    except (PeerLost, InterpreterLost) as loss:
        print(loss, file=sys.stderr)
        saver.finish()
        leave(PEER_LOST if isinstance(loss, PeerLost) else INTERPRETER_LOST)


def _read(channel: _ParentChannel, inbox: Inbox, close: Callable[[], None]) -> None:
    try:
        while (command := pickle.loads(channel.receive())) is not None:
            inbox.put(command)
        close()
    except (EOFError, OSError):
        leave(0)
    except BaseException:
        traceback.print_exc()
        leave(1)


def _folder_of(job: Job) -> Path:
    """Return where checkpoints are written; on a machine that the driver is not on, where nothing stays."""
    if job.storage is None or job.checkpoints.is_dir():
        return job.checkpoints
    return scratch.place() / job.checkpoints.name


def _refuse_everything(channel: _ParentChannel, error: str) -> None:
    """Answer every lease with the error: no trial can be trained."""
    while (command := pickle.loads(channel.receive())) is not None:
        lease = command.lease if isinstance(command, Part) and command.rank == 0 else command
        if isinstance(lease, RunLease):
            channel.send([LeaseFailed(lease.lease, lease.start, error, "contract")])


def run(
    worker: int,
    cores: Sequence[int],
    log: Path,
    descriptor: int,
    echo: int | None = None,
    *,
    is_fresh: bool = False,
    standby: int | None = None,
) -> None:
    """Run `main` as a program."""
    try:
        main(descriptor, worker, cores, log, echo, is_fresh, standby)
    except (EOFError, ConnectionError):  # the parent went away before it had said anything
        leave(0)
    except BaseException:
        traceback.print_exc()
        leave(1)


if __name__ == "__main__":
    run(
        int(sys.argv[1]),
        [int(core) for core in sys.argv[2].split(",") if core],
        Path(sys.argv[3]),
        *map(int, sys.argv[4:]),
        is_fresh=True,
    )
