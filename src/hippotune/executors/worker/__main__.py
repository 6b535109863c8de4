"""The program of a worker process: ``python -m hippotune.executors.worker DESCRIPTOR WORKER``.

The main thread trains: user code runs there, as many libraries want it. A second reads commands from the
connection with the given descriptor, and ends the process when the other end is gone. A third, the saver,
writes checkpoints. What user code prints goes to a log file and never mixes with messages.

The parent speaks first, with a `Parcel`; then come `RunLease`, `Part` and `UpdateLease`, and None to close.
This process sends lists of events, the first of them `WorkerJoined`.
"""

from __future__ import annotations

import faulthandler
import io
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NoReturn

from hippotune.errors import HippoError
from hippotune.executors.local.process import OUT_OF_MEMORY, PEER_LOST
from hippotune.executors.shipping import unpack
from hippotune.executors.worker.parent import end_with_parent
from hippotune.executors.worker.runner import Inbox, OutOfMemory, Runner
from hippotune.executors.worker.saver import Saver
from hippotune.executors.worker.tracebacks import describe
from hippotune.executors.worker.wide import Part, PeerLost
from hippotune.protocol.commands import RunLease
from hippotune.protocol.events import Event, LeaseFailed, WorkerJoined
from hippotune.store.files import CheckpointFiles
from hippotune.trainers.session import Session


class _ParentChannel:
    """The connection to the parent: messages in by one thread, out by any."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._connection = Connection(descriptor)
        # A process that user code forks must not keep the line open when this one is dead.
        os.register_at_fork(after_in_child=self._connection.close)
        self._sending = threading.Lock()

    def send(self, events: Sequence[Event]) -> None:
        """Send events. Where nobody is left to hear them, the reading thread is about to end the process."""
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


def main(descriptor: int, worker: int) -> None:
    """Work until told to close."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at the keyboard: the parent decides what becomes of it
    faulthandler.enable()
    end_with_parent()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    line = _ParentChannel(descriptor)
    parcel = pickle.loads(line.receive())
    try:
        job = unpack(parcel)
        session = Session(job.trainer, job.settings, job.seed, watch=bool(job.code))
    except HippoError as error:
        line.send([WorkerJoined(worker)])
        _refuse_everything(line, describe(error))
        return
    inbox: Inbox = queue.SimpleQueue()
    files = CheckpointFiles(job.checkpoints)
    saver = Saver(files, line.send)
    runner = Runner(session, files, saver, inbox, line.send)

    def close() -> None:
        saver.finish()
        if runner.running:  # in the middle of a step, that nobody waits for
            _exit(0)
        line.close()
        inbox.put(None)

    threading.Thread(target=_read, args=[line, inbox, close], name="reader", daemon=True).start()
    line.send([WorkerJoined(worker)])
    try:
        runner.serve()
    except OutOfMemory:
        saver.finish()
        _exit(OUT_OF_MEMORY)
    except PeerLost as loss:
        print(loss, file=sys.stderr)
        saver.finish()
        _exit(PEER_LOST)


def _read(line: _ParentChannel, inbox: Inbox, close: Callable[[], None]) -> None:
    try:
        while (command := pickle.loads(line.receive())) is not None:
            inbox.put(command)
        close()
    except (EOFError, OSError):
        _exit(0)
    except BaseException:
        traceback.print_exc()
        _exit(1)


def _refuse_everything(line: _ParentChannel, error: str) -> None:
    """Tell whoever brings work that no trial can be trained."""
    while (command := pickle.loads(line.receive())) is not None:
        lease = command.lease if isinstance(command, Part) and command.rank == 0 else command
        if isinstance(lease, RunLease):
            line.send([LeaseFailed(lease.lease, lease.start, error, "contract")])


def _exit(status: int) -> NoReturn:
    """Leave at once, whatever the other threads are doing."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
    except (EOFError, ConnectionError):  # the parent went away before it had said anything
        _exit(0)
    except BaseException:
        traceback.print_exc()
        _exit(1)
