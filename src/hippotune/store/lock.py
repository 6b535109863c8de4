"""One writer at a time: the process that trains on a plan holds its lock; a second one is told which that is.

A lock is held by something that the operating system or the database takes away from a dead process, so none
is ever left behind: a locked file below a home, a session on PostgreSQL. Reading a plan needs no lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import socket
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa

from hippotune.errors import StoreError
from hippotune.store.base import ConnectionLost
from hippotune.store.postgresql import LOCK_SPACE
from hippotune.store.schema import HOLDERS

_LONGEST_COMMAND = 200
_NOTICE = 1  # seconds in which a PostgreSQL server surely notices that a client has died
_LOCK_NOT_AVAILABLE = "55P03"
_held: set[int] = set()
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
        command = shlex.join([os.path.basename(sys.executable), *sys.argv])
        return cls(os.getpid(), socket.gethostname(), now, command[:_LONGEST_COMMAND])

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


def _refusal(name: str, holder: Holder | None) -> PlanInUse:
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
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 1 << 16, 0).decode(errors="replace")
            os.close(self._descriptor)
            if isinstance(error, BlockingIOError):
                raise _refusal(name, Holder.read(holder)) from None
            raise StoreError(
                f"{path} cannot be locked: {error.strerror}; choose a home on a file system with locks, "
                "or a PostgreSQL store"
            ) from error
        _held.add(self._descriptor)
        with suppress(OSError):  # a full disk; then others learn that the plan is in use, and not by whom
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, Holder.here().written().encode(), 0)

    def release(self) -> None:
        """Let go."""
        if self._descriptor is not None:
            _held.discard(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


class SessionLock:
    """An advisory lock of a PostgreSQL session: the one that writes, so that both end together."""

    def __init__(self, connection: sa.Connection, plan: int, name: str) -> None:
        self._connection: sa.Connection | None = None
        self._descriptor = -1
        self._plan = plan
        self._name = name
        self._holder = Holder.here().written()
        self._was_held = False
        self.hold_by(connection)

    def hold_by(self, connection: sa.Connection) -> None:
        """Hold the lock by a session; where another did so before and is lost, take the lock again.

        Raises `PlanInUse` where another process has had it meanwhile.
        """
        if connection is self._connection:
            return
        self._connection = None
        _held.discard(self._descriptor)
        self._lock(connection)
        driver: Any = connection.connection.dbapi_connection
        mine = HOLDERS.c.plan == self._plan
        with connection.begin():
            last = connection.execute(sa.select(HOLDERS.c.holder).where(mine)).scalar()
            if self._was_held and last != self._holder:
                raise PlanInUse(
                    f"another process has used {self._name} while the database could not be reached: what "
                    "was trained meanwhile is lost; run again, and it goes on from where the other one is"
                )
            connection.execute(sa.delete(HOLDERS).where(mine))
            row = {"plan": self._plan, "session": driver.info.backend_pid, "holder": self._holder}
            connection.execute(sa.insert(HOLDERS).values(row))
        self._connection, self._descriptor, self._was_held = connection, driver.fileno(), True
        _held.add(self._descriptor)

    def _lock(self, connection: sa.Connection) -> None:
        key = {"space": LOCK_SPACE, "plan": self._plan}
        try:
            with connection.begin():
                if self._was_held:  # the server may not know yet that its client is gone
                    connection.execute(_END_SESSION, {**key, "holder": self._holder})
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_NOTICE}s'")
                connection.execute(sa.text("SELECT pg_advisory_lock(:space, :plan)"), key)
        except sa.exc.OperationalError as error:
            if connection.invalidated or getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            with connection.begin():
                holder = connection.execute(_PRESENT_HOLDER, key).scalar_one_or_none()
            if self._was_held and holder in (None, self._holder):
                raise ConnectionLost(f"{self._name} is still held by a session that was lost") from None
            raise _refusal(self._name, None if holder is None else Holder.read(holder)) from None

    def release(self) -> None:
        """Let go."""
        connection, self._connection = self._connection, None
        _held.discard(self._descriptor)
        if connection is None or connection.closed:
            return
        try:
            with connection.begin():
                connection.exec_driver_sql(f"SELECT pg_advisory_unlock({LOCK_SPACE}, {self._plan})")
        except sa.exc.SQLAlchemyError:
            connection.invalidate()  # the session is gone, or goes with this, and its locks with it


_LOCKED_BY = (
    f"FROM {HOLDERS.name} JOIN pg_locks ON pg_locks.pid = session "
    "WHERE plan = :plan AND locktype = 'advisory' AND classid = :space AND objid = :plan AND granted"
)
_PRESENT_HOLDER = sa.text(f"SELECT holder {_LOCKED_BY}")
_END_SESSION = sa.text(f"SELECT pg_terminate_backend(pid) {_LOCKED_BY} AND holder = :holder")


def _give_up_copies() -> None:
    """Point a forked child's copies elsewhere: closing them would hand their numbers to other files."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in _held:
        os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)
    _held.clear()


os.register_at_fork(after_in_child=_give_up_copies)
