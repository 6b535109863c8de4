"""Fresh interpreters that do one thing for a job and end: ``python -m hippotune.executors.fresh RESULT``.

Each is a new process, not a copy of this one, with a worker's environment. It gets the job as workers do, so
that classes of scripts and notebooks work. What the user's code prints there is kept for the case that the
process dies.
"""

from __future__ import annotations

import faulthandler
import gc
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from hippotune.errors import HippoError, TrialFailed
from hippotune.executors.base import Job, Parcel
from hippotune.executors.kept import KeptProcess
from hippotune.executors.shipping import pack, unpack
from hippotune.executors.worker.tracebacks import describe
from hippotune.gc_pause import gc_paused_for_imports
from hippotune.scratch import Scratch

T = TypeVar("T")
A = TypeVar("A")

_TAIL_LINES = 20


class FreshInterpreters:
    """Runs functions of a job, each in an interpreter of its own; any thread may call `run`.

    The end of a ``with`` block ends those that still run, and no more are started.
    """

    def __init__(self, job: Job, environment: Mapping[str, str]) -> None:
        self._parcel = pack(job)
        self._environment = environment
        self._running: set[KeptProcess] = set()
        self._is_closed = False
        self._lock = threading.Lock()

    def __enter__(self) -> FreshInterpreters:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_closed = True
            for process in self._running:
                process.end()

    def run(self, call: Callable[[Job, A], T], argument: A) -> T:
        """Return what ``call(job, argument)`` returns in a fresh interpreter.

        A `HippoError` is raised again here; any other error becomes `TrialFailed`, with its traceback.
        """
        import cloudpickle

        with Scratch() as folder:
            result, log = folder / "result", folder / "log"
            content = cloudpickle.dumps((call, argument), protocol=5)
            process = self._start(result, log)
            try:
                process.communicate(pickle.dumps((self._parcel, content), protocol=5))
            finally:
                process.end()
                with self._lock:
                    self._running.discard(process)
            if not result.exists():
                raise HippoError(died(self._parcel, process.returncode, log))
            returned, error = pickle.loads(result.read_bytes())
        if error is not None:
            raise error
        value: T = returned
        return value

    def _start(self, result: Path, log: Path) -> KeptProcess:
        with self._lock, log.open("wb") as output:
            if self._is_closed:
                raise HippoError("no more interpreters are started: the study has ended")
            process = KeptProcess(
                "hippotune.executors.fresh", [str(result)], self._environment, output, stdin=subprocess.PIPE
            )
            self._running.add(process)
            return process


def died(parcel: Parcel, status: int, log: Path) -> str:
    """Say that a process with a trainer ended without a result, with the last lines that it printed."""
    lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    last = "".join(f"\n    {line}" for line in lines)
    return (
        f"a process that opened {parcel.trainer} ended with status {status} before it was done"
        f"{'. Its last lines:' if last else ''}{last}"
    )


def _main(result: Path) -> None:
    faulthandler.enable()
    parcel, content = pickle.loads(sys.stdin.buffer.read())
    returned = error = None
    try:
        with gc_paused_for_imports():
            job = unpack(parcel)
            gc.freeze()  # what was imported stays
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
