"""One writer at a time: the process that trains on a plan holds its lock; a second one is told which that is.

A lock is held by something that the operating system or the database takes away from a dead process, so none
is ever left behind: a locked file below a home, or, in `session_lock`, a session on PostgreSQL. Reading a
plan needs no lock.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from hippotune import portable
from hippotune.errors import StoreError

_LONGEST_COMMAND = 200
held: set[int] = set()
"""Descriptors that stand for a lock. A forked child gives its copies up, for it could outlive its parent."""


class PlanInUse(StoreError):
    """Another process uses the plan."""


class PlanLock(Protocol):
    """A lock that is held."""

    def release(self) -> None:
        """Let go. May be called twice."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock."""

    pid: int
    host: str
    since: str
    command: str

    @classmethod
    def here(cls) -> Holder:
        """Describe this process."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return cls(os.getpid(), socket.gethostname(), now, _command()[:_LONGEST_COMMAND])

    @classmethod
    def read(cls, text: str) -> Holder | None:
        """Read what `written` returned; None where it is not whole yet."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None

    def written(self) -> str:
        """Return this as JSON."""
        return json.dumps(asdict(self))


def _command() -> str:
    """Return what runs here, without its arguments: others can read this, and there may be a password."""
    program, *rest = sys.argv or [""]
    command = [word for word in rest[:1] if word.isidentifier()]  # such as serve
    return shlex.join([os.path.basename(sys.executable), program, *command])


def refusal(name: str, holder: Holder | None) -> PlanInUse:
    """Return the error that says who holds a lock."""
    if holder is None:
        return PlanInUse(f"{name} is in use by another process, which has just begun; wait for it to end")
    if (holder.pid, holder.host) == (os.getpid(), socket.gethostname()):
        return PlanInUse(
            f"{name} is in use by this very process since {holder.since}: close the other study first"
        )
    return PlanInUse(
        f"{name} is in use by process {holder.pid} on {holder.host} since {holder.since} ({holder.command}): "
        "wait for it to end, or end it"
    )


class FileLock:
    """A lock on a file, which stays where it is when the lock is released."""

    def __init__(self, path: Path, name: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StoreError(f"cannot write to {path}: {error.strerror}; choose another home") from error
        try:
            portable.lock(self._descriptor)
        except OSError as error:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            holder = os.read(self._descriptor, 1 << 16).decode(errors="replace")
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError):
                raise refusal(name, Holder.read(holder)) from None
            raise StoreError(
                f"{path} cannot be locked: {error.strerror}; choose a home on a file system with locks, "
                "or a PostgreSQL store"
            ) from error
        held.add(self._descriptor)
        with suppress(OSError):  # a full disk; then others learn that the plan is in use, and not by whom
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, Holder.here().written().encode())

    def release(self) -> None:
        """Let go."""
        if self._descriptor is not None:
            held.discard(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


def _give_up_copies() -> None:
    """Point a forked child's copies elsewhere: closing them would hand their numbers to other files."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in held:
        os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)
    held.clear()


portable.after_fork(_give_up_copies)
