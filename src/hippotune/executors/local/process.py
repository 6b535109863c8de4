"""A worker process as its parent sees it: it is started, gets messages, is ended, and the cause is found."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

from hippotune import portable
from hippotune.executors import lease_log
from hippotune.executors.kept import Kept, KeptProcess
from hippotune.executors.local.channel import Channel
from hippotune.executors.local.fork_server import ForkClient
from hippotune.executors.local.forked import ForkedProcess
from hippotune.protocol.events import Event

# A worker exits with this status to be replaced, because an error may lie in its process.
REPLACED = 75
# A worker that leads a lease exits with this status when it has lost another worker of the lease.
PEER_LOST = 76
# A worker exits with this status when its fresh interpreter died in the middle of a lease.
INTERPRETER_LOST = 77

# The modules of the classes that workers may send.
_ALLOWED = ("hippotune.protocol.events", "hippotune.protocol.fingerprint", "hippotune.plan.facts")
_EXIT_SECONDS = 5.0
_TAIL_LINES = 30
_TAIL_BYTES = 1 << 13


class _EventsOnly(pickle.Unpickler):
    """Reads events and facts, and nothing else: user code runs in the process that sends them."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class of the protocol."""
        found = getattr(sys.modules.get(module), name, None) if module in _ALLOWED else None
        if not isinstance(found, type) or found.__module__ != module:
            raise pickle.UnpicklingError(f"a worker sent a {module}.{name}; expected events only")
        return found


def said_by(message: bytes) -> list[Event]:
    """Read a message of a worker. Raises `EOFError`, as at its end, if it holds anything but events."""
    try:
        events: list[Event] = _EventsOnly(io.BytesIO(message)).load()
    except Exception as error:
        raise EOFError(f"a worker sent what is no event: {error}") from error
    return events


class WorkerProcess:
    """One process. Receiving is for one thread; everything else may be called from any.

    What is printed goes to `log`, and by way of the descriptor `echo`, if there is one, to a second place.
    Where `modules` are named, it is forked off a process that has imported them, or off a given one, and may
    have a `standby` for interpreters of its own; else it is a fresh one.
    """

    def __init__(
        self,
        worker: int,
        log: Path,
        environment: Mapping[str, str],
        cores: Sequence[int],
        echo: int | None = None,
        user: str | None = None,
        modules: Sequence[str] | ForkClient | None = None,
        standby: int | None = None,
    ) -> None:
        ours, theirs = Pipe()
        log.parent.mkdir(parents=True, exist_ok=True)
        for left in (log, lease_log.of_fresh(log)):  # by processes that died together with their parent
            lease_log.keep(left)
        self._log = log
        # No link: the folder may belong to another user, who could redirect what is written, or whose file it
        # becomes.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | portable.NOT_THROUGH_LINKS
        with open(os.open(log, flags, 0o666), "ab") as output, theirs, ExitStack() as copies:
            if user is not None:
                os.fchown(output.fileno(), portable.user_named(user)[0], -1)
            descriptors = {"descriptor": theirs.fileno()}
            if echo is not None:  # its own number is taken by the child's output
                descriptors["echo"] = os.dup(echo)
                copies.callback(os.close, descriptors["echo"])
            self._process: Kept
            if modules is not None:
                if standby is not None:
                    descriptors["standby"] = standby
                self._process = ForkedProcess(
                    "hippotune.executors.worker.__main__:run",
                    [worker, tuple(cores), log.absolute()],
                    f"hippo-worker-{worker}",
                    environment,
                    modules,
                    output,
                    descriptors=descriptors,
                )
            else:
                arguments = [worker, ",".join(map(str, cores)), log, *descriptors.values()]
                self._process = KeptProcess(
                    "hippotune.executors.worker",
                    list(map(str, arguments)),
                    environment,
                    output,
                    descriptors=list(descriptors.values()),
                    user=user,
                )
        self._channel = Channel(ours)

    @property
    def folder(self) -> Path:
        """A folder on this machine that is removed when the process ends."""
        return self._process.folder

    def receive(self, timeout: float) -> list[Event] | None:
        """Return the next events; None after `timeout` seconds. Raises `EOFError` at the end."""
        message = self._channel.receive(timeout)
        return None if message is None else said_by(message)

    def send_first(self, message: bytes) -> None:
        """Send the first message; waits until the process takes it or is dead."""
        self._channel.put(message)

    def send(self, message: bytes) -> None:
        """Send a further message without waiting. A dead process does not get it, and needs none."""
        self._channel.send(message)

    def kill(self) -> None:
        """End the process, and all that it started, at once."""
        self._process.end()

    def reap(self, cause: str | None = None) -> str:
        """End a process that no longer answers; return why it ended, for a person to read."""
        self.kill()
        self._channel.close()
        return f"worker process {self._process.pid} {cause or self._cause()}{self._log_tail()}"

    def wait_closed(self) -> None:
        """Wait until a process that was asked to close has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_SECONDS)
        self.kill()
        self._channel.close()
        with suppress(OSError):
            lease_log.keep(self._log)

    def _log_tail(self) -> str:
        """Keep what was printed since the last lease ended; return its last lines."""
        try:
            log = lease_log.keep(self._log)
            if log is None:
                return ""
            head = lease_log.Head.read(log)
            with log.open("rb") as file:
                length = file.seek(0, os.SEEK_END)
                file.seek(max(0 if head is None else len(head.written()), length - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        except OSError as error:  # the loss is reported all the same
            return f" (its log cannot be read: {error})"
        return "\n".join([f"\nThe last lines of {log}:", *(f"    {line}" for line in lines)])

    def _cause(self) -> str:
        status = self._process.wait()
        if status == REPLACED:
            return "is replaced: the error may come from the process itself (memory, device, connection)"
        if status == PEER_LOST:
            return "is replaced because another worker, which it trained a lease with, was lost"
        if status == INTERPRETER_LOST:
            return "is replaced because the fresh interpreter, which repeated a step for it, died"
        if status == -signal.SIGKILL:
            return "was killed by SIGKILL, as by a system that runs out of memory"
        if status < 0:
            return f"was killed by {signal.Signals(-status).name}"
        return f"exited with status {status}"
