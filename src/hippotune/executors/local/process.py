"""A worker process as its parent sees it: started, spoken with, ended, and asked why it died."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Pipe
from pathlib import Path

from hippotune.executors.local.channel import Channel
from hippotune.protocol.events import Event

# The status with which a worker exits that wants to be replaced because it ran out of memory.
OUT_OF_MEMORY = 75
# The status with which one exits that leads a lease and has lost another worker of it.
PEER_LOST = 76

_SOURCES = str(Path(__file__).resolve().parents[3])
_EXIT_SECONDS = 5.0
_TERMINATE_SECONDS = 2.0
_TAIL_LINES = 20
_TAIL_BYTES = 1 << 13


class WorkerProcess:
    """One process. Receiving is for one thread; everything else may be called from any."""

    def __init__(self, worker: int, log: Path, environment: Mapping[str, str], cores: Sequence[int]) -> None:
        ours, theirs = Pipe()
        path = [_SOURCES, *filter(None, [environment.get("PYTHONPATH")])]
        with log.open("ab") as output, theirs:
            self._log, self._log_start = log, output.tell()
            self._process = subprocess.Popen(
                # -P: a module in the working directory must not stand in for one of the standard library.
                [sys.executable, "-P", "-m", "hippotune.executors.worker", str(theirs.fileno()), str(worker)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                env={**environment, "PYTHONPATH": os.pathsep.join(path)},
                process_group=0,  # what it starts itself can be killed with it
            )
        if cores:
            with suppress(ProcessLookupError):
                os.sched_setaffinity(self._process.pid, cores)
        self._line = Channel(ours)

    def receive(self, timeout: float) -> list[Event] | None:
        """Return the next events; None after `timeout` seconds. Raises `EOFError` at the end."""
        message = self._line.receive(timeout)
        return None if message is None else pickle.loads(message)

    def greet(self, message: bytes) -> None:
        """Send the first message; waits until the process takes it or is dead."""
        self._line.put(message)

    def send(self, message: bytes) -> None:
        """Send a further message without ever waiting. What a dead process does not get is lost with it."""
        self._line.send(message)

    def kill(self) -> None:
        """End the process, and all that it started, at once."""
        if self._process.returncode is None:  # until it is waited for, its number is nobody else's
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def bury(self, cause: str | None = None) -> str:
        """Make sure that a process which no longer speaks is gone; return why, for a person to read."""
        self.kill()
        self._line.close()
        return f"worker process {self._process.pid} {cause or self._cause()}{self._last_words()}"

    def see_off(self) -> None:
        """Wait for a process that was asked to close, and has finished speaking, to be gone."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_SECONDS)
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_TERMINATE_SECONDS)
        self.kill()
        self._line.close()

    def _last_words(self) -> str:
        try:
            with self._log.open("rb") as file:
                length = file.seek(0, os.SEEK_END)
                file.seek(max(self._log_start, length - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        except FileNotFoundError:  # somebody has removed the study's folder while its workers waited
            return ""
        if not lines:
            return ""
        return "\n".join([f"\nThe last lines of {self._log}:", *(f"    {line}" for line in lines)])

    def _cause(self) -> str:
        status = self._process.returncode
        if status == OUT_OF_MEMORY:
            return "is replaced because it ran out of memory"
        if status == PEER_LOST:
            return "is replaced because another worker, which it trained a lease with, was lost"
        if status == -signal.SIGKILL:
            return "was killed by SIGKILL, as by a system that runs out of memory"
        if status < 0:
            return f"was killed by {signal.Signals(-status).name}"
        return f"exited with status {status}"
