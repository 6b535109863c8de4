"""Fresh interpreters that do one thing for a job and end: ``python -m hippotune.executors.fresh RESULT``.

Each is a new process, not a copy of this one, with a worker's environment. It gets the job as workers do, so
that classes of scripts and notebooks work. What the user's code prints there is kept for the case that the
process dies.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from hippotune.errors import HippoError, TrialFailed
from hippotune.executors.base import Job
from hippotune.executors.shipping import pack, unpack
from hippotune.executors.worker.tracebacks import describe

T = TypeVar("T")
A = TypeVar("A")

_SOURCES = str(Path(__file__).resolve().parents[2])
_TAIL_LINES = 20


class FreshInterpreters:
    """Runs functions of a job, each in an interpreter of its own; any thread may call `run`.

    The end of a ``with`` block ends those that still run, and no more are started.
    """

    def __init__(self, job: Job, environment: Mapping[str, str]) -> None:
        self._parcel = pack(job)
        path = [_SOURCES, *filter(None, [environment.get("PYTHONPATH")])]
        self._environment = {**environment, "PYTHONPATH": os.pathsep.join(path)}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False
        self._lock = threading.Lock()

    def __enter__(self) -> FreshInterpreters:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_closed = True
            for process in self._running:
                _kill(process)

    def run(self, call: Callable[[Job, A], T], argument: A) -> T:
        """Return what ``call(job, argument)`` returns in a fresh interpreter.

        An error of Hippo's is raised here as it was there; `TrialFailed` shows the traceback of another.
        """
        import cloudpickle

        with tempfile.TemporaryDirectory(prefix="hippo-") as folder:
            result, log = Path(folder, "result"), Path(folder, "log")
            content = cloudpickle.dumps((call, argument), protocol=5)
            process = self._start(result, log)
            try:
                process.communicate(pickle.dumps((self._parcel, content), protocol=5))
            finally:
                _kill(process)
                with self._lock:
                    self._running.discard(process)
            if not result.exists():
                lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
                last = "".join(f"\n    {line}" for line in lines)
                raise HippoError(
                    f"a fresh process for {self._parcel.trainer} ended with status {process.returncode} "
                    f"before it was done{'. Its last lines:' if last else ''}{last}"
                )
            returned, error = pickle.loads(result.read_bytes())
        if error is not None:
            raise error
        value: T = returned
        return value

    def _start(self, result: Path, log: Path) -> subprocess.Popen[bytes]:
        with self._lock, log.open("wb") as output:
            if self._is_closed:
                raise HippoError("no more interpreters are started: they are not needed any more")
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hippotune.executors.fresh", str(result)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=self._environment,
                process_group=0,  # what it starts itself can be killed with it
            )
            self._running.add(process)
            return process


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _main(result: Path) -> None:
    from hippotune.executors.worker.parent import end_with_parent

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at the keyboard: the parent decides what becomes of it
    faulthandler.enable()
    end_with_parent()
    parcel, content = pickle.loads(sys.stdin.buffer.read())
    returned = error = None
    try:
        job = unpack(parcel)
        call, argument = pickle.loads(content)
        returned = call(job, argument)
    except HippoError as raised:
        error = _sendable(raised)
    except Exception as raised:
        error = TrialFailed(describe(raised))
    result.write_bytes(pickle.dumps((returned, error), protocol=5))


def _sendable(error: HippoError) -> HippoError:
    """Return an error of the same kind that says all there is to say, without its frames and causes."""
    text = describe(error)
    try:
        same = type(error)(text)
        pickle.loads(pickle.dumps(same))
    except Exception:
        return HippoError(text)
    return same


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
