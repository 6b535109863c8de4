"""A small study for `faults.py`, and what makes a call of it fail: in the driver and in its workers.

Every call that names or changes something below the home is a point, and so is every SQL statement and every
commit. With HIPPO_FAULT in the environment, the process of a role ("driver" or "worker") that comes to its
n-th point is killed there, or the call fails. That happens once: the one that removes the token file does it.
"""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hippotune as hippo
from hippotune import MultiStep

FAULT = "HIPPO_FAULT"
SPACE = {"lr": [0.5, MultiStep(0.5, [2], 0.5)]}
STEPS = 4
_EVENTS = {
    *("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.listdir", "os.scandir"),
    *("os.truncate", "sqlite3.connect", "shutil.rmtree"),
}
_SAYS = {errno.EIO: "disk I/O error", errno.ENOSPC: "database or disk is full"}
_unlink, _write, _open, _close, _readlink = os.unlink, os.write, os.open, os.close, os.readlink


class Injection:
    """Counts the points of this process, tells them in a log, and lets one of them fail."""

    def __init__(self, home: str, log: str, token: str, role: str, place: int, fault: str) -> None:
        self._home, self._log, self._token = home, log, token
        self._role, self._place, self._fault = role, place, fault
        self._mine = "worker" if "hippotune.executors." in " ".join(sys.orig_argv) else "driver"
        self._count = 0
        self._lock = threading.RLock()
        self._inside = threading.local()

    def arm(self) -> None:
        """Watch all calls from now on."""
        sys.addaudithook(self._audited)
        for name in ("fsync", "write", "pwrite", "ftruncate", "fchmod"):
            setattr(os, name, self._watching(name, getattr(os, name)))
        builtins.open = io.open = self._opened  # type: ignore[assignment]
        if self._mine == "driver":  # workers start again and again, and have no database
            import sqlalchemy as sa

            for event in ("before_cursor_execute", "commit"):
                sa.event.listen(sa.Engine, event, self._on_sql(event))

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS and any(self._is_below(each) for each in arguments[:2]):
            self.point("sql" if event == "sqlite3.connect" else "file", event)  # by what it raises

    def _watching(self, name: str, call: Any) -> Any:
        def watching(descriptor: int, *arguments: Any) -> Any:
            if self._is_below(_path_of(descriptor)):
                self.point("file", name)
            return call(descriptor, *arguments)

        return watching

    def _opened(self, file: Any, mode: str = "r", buffering: int = -1, *arguments: Any, **more: Any) -> Any:
        if not self._is_below(file) or not set(mode) & set("wxa"):
            return _io_open(file, mode, buffering, *arguments, **more)
        raw = _Writing(self, os.fspath(file), mode.replace("t", "").replace("b", ""))
        buffered = io.BufferedWriter(raw, buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding="utf-8")

    def _on_sql(self, event: str) -> Any:
        def on_sql(connection: Any, *arguments: Any) -> None:
            what = " ".join(str(arguments[1]).split()[:3]) if len(arguments) > 1 else event
            self.point("sql", what)

        return on_sql

    def _is_below(self, path: object) -> bool:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._home)

    def point(self, kind: str, what: str) -> None:
        """One more call; it may be the one."""
        if getattr(self._inside, "now", False):
            return
        self._inside.now = True
        try:
            with self._lock:
                self._count += 1
                count = self._count
            descriptor = _open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            _write(descriptor, f"{self._mine} {count} {kind} {what}\n".encode())
            _close(descriptor)
            if (self._mine, count) == (self._role, self._place):
                self._fail(kind)
        finally:
            self._inside.now = False

    def _fail(self, kind: str) -> None:
        try:
            _unlink(self._token)
        except FileNotFoundError:
            return
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, self._fault)
        if kind == "sql":
            raise sqlite3.OperationalError(_SAYS[number])
        raise OSError(number, os.strerror(number))


class _Writing(io.FileIO):
    def __init__(self, injection: Injection, path: str, mode: str) -> None:
        super().__init__(path, mode)
        self._injection = injection

    def write(self, content: Any) -> int:
        self._injection.point("file", "write")
        return super().write(content)


_io_open = io.open


def _path_of(descriptor: int) -> str:
    try:
        return _readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


class Faulty(hippo.Trainer):
    """A number that comes down, and remembers what it was trained with."""

    def build(self) -> None:
        self.height, self.values, self.hp = 1.0, list[float](), dict[str, Any]()

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.hp.update(hp)

    def train(self) -> None:
        self.height *= 1 - self.hp["lr"]
        self.values.append(self.hp["lr"])
        self.log(height=self.height)

    def evaluate(self) -> Mapping[str, float]:
        return {"height": self.height}


def study(home: Path, version: str = "1") -> hippo.Study:
    """Return the study; with another version, it has another plan."""
    return hippo.Study(
        *("faulty", Faulty),
        home=home,
        executor=hippo.Local(workers=1),
        version=version,
        checkpoint_budget=11_000,
        keep_best=1,
        retries=hippo.Retries(pause=0.01),
    )


def tuned(home: Path, version: str = "1") -> str:
    """Tune, and return all that came of it."""
    with study(home, version) as opened:
        tuner = hippo.GridSearch(SPACE, metric="height", mode="min", max_steps=STEPS)
        report = opened.tune(tuner, progress=False)
        best = report.best.load()
    assert isinstance(best, Faulty)
    found = [[dict(trial.metrics), report.logged(trial)] for trial in report.trials]
    return json.dumps([found, best.values, best.height])


def arm() -> None:
    """Have the call fail in this process that HIPPO_FAULT names."""
    Injection(**json.loads(os.environ[FAULT])).arm()


if FAULT in os.environ:  # in a worker
    arm()
