"""The lock of a plan on PostgreSQL."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from hippotune.store.base import ConnectionLost
from hippotune.store.lock import Holder, PlanInUse, held, refusal
from hippotune.store.postgresql import LOCK_SPACE
from hippotune.store.schema import HOLDERS

_NOTICE = 1  # seconds in which a PostgreSQL server surely notices that a client has died
_LOCK_NOT_AVAILABLE = "55P03"


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
        held.discard(self._descriptor)
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
        held.add(self._descriptor)

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
            raise refusal(self._name, None if holder is None else Holder.read(holder)) from None

    def release(self) -> None:
        """Let go."""
        connection, self._connection = self._connection, None
        held.discard(self._descriptor)
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
