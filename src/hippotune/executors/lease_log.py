"""What user code prints: a log for every lease, with its study, its trial and its steps.

A worker writes to ``worker-N.log``. When its lease ends, or the worker dies, what was printed is kept in the
same folder under a name of its own; later leases and other studies leave it alone. The first line says whose
it is, as JSON; lines such as ``[step 3]`` say when what follows was printed. Of a log its last megabyte is
kept, and of a plan its last logs.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hippotune.protocol.lease_run import LeaseRun

FOLDER = "logs"
"""The folder of logs, below that of a plan's checkpoints."""
_MOST_BYTES = 1 << 20
_MOST_BYTES_OF_PLAN = 1 << 28
_MOST_OF_PLAN = 10_000
_PRUNE_EVERY = 100  # logs that a process keeps
_kept = itertools.count()
_LOOK_SECONDS = 1.0
_CUT = b"[the beginning was left out: a log keeps its last megabyte]\n"


@dataclass(frozen=True, slots=True)
class Head:
    """Whose log it is: the lease, its segments (node, start, end), and a trial that it was trained for.

    What a `proof` prints was printed before, and is no part of the trial's log.
    """

    study: str
    trial: int | None
    lease: int
    worker: int
    segments: tuple[tuple[int, int, int], ...]
    proof: bool = False

    @classmethod
    def of(cls, run: LeaseRun) -> Head:
        """Return the head of the log of a lease."""
        lease = run.lease
        segments = tuple((segment.node, segment.start, segment.end) for segment in lease.segments)
        return cls(lease.study, lease.trial, lease.lease, lease.worker, segments, lease.proof)

    @classmethod
    def read(cls, path: Path) -> Head | None:
        """Return the head of a log; None where it has none."""
        try:
            with path.open("rb") as file:
                values = json.loads(file.readline())
            segments = tuple((int(node), int(start), int(end)) for node, start, end in values.pop("segments"))
            return cls(segments=segments, **values)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def written(self) -> bytes:
        """Return the line that `read` reads."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(values).encode() + b"\n"

    def node_at(self, step: int) -> int:
        """Return the node that what was printed at a step belongs to."""
        for node, _, end in self.segments:
            if step <= end:
                return node
        return self.segments[-1][0]


def of_fresh(log: Path) -> Path:
    """Return where the fresh interpreters of a worker write that writes to `log`."""
    return log.with_name(f"{log.stem}-fresh{log.suffix}")


def keep(path: Path) -> Path | None:
    """Keep what a worker has printed under a name of its own; return where, or None where it is nothing."""
    head = Head.read(path)
    with suppress(FileNotFoundError):
        if path.stat().st_size <= (0 if head is None else len(head.written())):
            path.unlink()
            return None
        place = path.stem if head is None else "node-{}-step-{}".format(*head.segments[0])
        if head is not None and head.proof:
            place = "proof"
        kept = path.with_name(f"{time.time_ns()}-{place}.log")
        path.rename(kept)
        if next(_kept) % _PRUNE_EVERY == 0:
            _prune(path.parent)
        return kept
    return None


def _prune(folder: Path) -> None:
    """Remove the oldest logs of a plan that has too many."""
    kept = sorted(folder.glob("[0-9]*.log"), reverse=True)
    total = 0
    for number, path in enumerate(kept):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
            if total > _MOST_BYTES_OF_PLAN or number >= _MOST_OF_PLAN:
                path.unlink()


class LeaseLog:
    """Takes over a worker's standard output and standard error, for good.

    What Python prints is written to the descriptor `echo` too, if there is one.
    """

    def __init__(self, path: Path, echo: int | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._head = b""
        self._run: LeaseRun | None = None
        self._marked: tuple[str | None, int] | None = None
        self._open()
        if echo is not None:
            os.set_inheritable(echo, False)
        second = None if echo is None else _written_by_line(echo)
        sys.stdout, sys.stderr = _Marked(1, self._mark, second), _Marked(2, self._mark, second)
        threading.Thread(target=self._watch, name="log", daemon=True).start()

    @contextmanager
    def of(self, run: LeaseRun) -> Iterator[None]:
        """Let what is printed in the block be the log of a lease."""
        with self._lock:
            self._keep()
            self._head = Head.of(run).written()
            with suppress(OSError):  # what cannot be logged is no fault of what is trained
                os.ftruncate(1, 0)
                os.write(1, self._head)
        self._run, self._marked = run, None
        try:
            yield
        finally:
            self._run = None
            with self._lock:
                self._keep()

    def _mark(self) -> str:
        """Return the line that says where in its lease the worker is, unless that was said."""
        if (run := self._run) is None or (place := (run.doing, run.at)) == self._marked:
            return ""
        self._marked = place
        doing, at = place
        return f"[step {at + 1}]\n" if doing == "train" else f"[step {at}, {doing}]\n"

    def _keep(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if os.fstat(1).st_size > len(self._head):
            with suppress(OSError):  # the study's folder is gone, or full
                keep(self._path)
                self._open()

    def _open(self) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        self._head = b""
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        os.close(descriptor)

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock, suppress(OSError):
                self._trim()

    def _trim(self) -> None:
        """Leave the beginning out where there is too much. Child processes go on writing at the end."""
        size = os.fstat(1).st_size
        if size > _MOST_BYTES:
            last = os.pread(1, _MOST_BYTES // 2, size - _MOST_BYTES // 2)
            os.ftruncate(1, len(self._head))  # what is printed before the next line comes first, and stays
            os.write(1, _CUT + last)


def _written_by_line(descriptor: int) -> io.TextIOWrapper:
    return open(descriptor, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)


class _Marked(io.TextIOWrapper):
    """Text that is written line by line, with marks between what was written at different steps.

    What is written goes to `echo` too, without the marks.
    """

    def __init__(self, descriptor: int, mark: Callable[[], str], echo: io.TextIOWrapper | None) -> None:
        raw = open(descriptor, "wb", closefd=False)  # noqa: SIM115
        super().__init__(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        self._mark = mark
        self._echo = echo

    def write(self, text: str) -> int:
        if mark := self._mark():
            super().write(mark)
        if self._echo is not None:
            with suppress(OSError):
                self._echo.write(text)
        return super().write(text)
