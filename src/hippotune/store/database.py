"""The two databases, and all that differs between them: opening, locking, filling, and how they fail.

A commit is on disk before it returns, on both. Everything that goes wrong is raised as a `StoreError` which
says what to do.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hippotune.errors import InvalidInput, MissingExtra, StoreError

_PATIENCE = 60  # seconds to wait for another process to finish its transaction
_SQLITE_SETTINGS = (
    "PRAGMA journal_mode=WAL",  # readers and the writer do not wait for each other
    "PRAGMA synchronous=EXTRA",  # every commit reaches the disk, not only every checkpoint of the log
    "PRAGMA fullfsync=ON",  # … on macOS too
)
_POSTGRESQL_SETTINGS = (
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'",
    # A machine that vanished lets go of its plans within a minute, not within hours.
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
)
LOCK_SPACE = 0x48697070
"""The first half of the keys of advisory locks; the second is the number of a plan, or 0 for the catalog."""


class Database:
    """An open database, and what it is called in messages."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.is_sqlite = engine.dialect.name == "sqlite"

    @classmethod
    def at(cls, path: Path) -> Database:
        """Open the SQLite database in a file, which is made where it does not exist."""
        try:
            _make_durable(path.parent)
        except OSError as error:
            raise StoreError(
                f"cannot write to {path.parent}: {error.strerror}; choose another home"
            ) from error
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(path)), connect_args={"timeout": _PATIENCE}
        )
        sa.event.listen(engine, "connect", _set_up_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return cls(engine, f"the store {path}")

    @classmethod
    def by(cls, url: str) -> Database:
        """Open the PostgreSQL database behind a URL."""
        shown = _without_password(url)
        try:
            parsed = sa.make_url(url)
        except (sa.exc.ArgumentError, ValueError):
            parsed = sa.URL.create("none")
        if parsed.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
            raise InvalidInput(
                f"store is {shown!r}; expected a URL such as postgresql://user@host/database, "
                "or nothing at all for SQLite below the study's home"
            )
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise MissingExtra(
                f"store is {shown!r}, but the driver for PostgreSQL cannot be imported ({error}); "
                "install it with: pip install 'hippotune[postgres]'"
            ) from error
        engine = sa.create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,
            connect_args={} if "connect_timeout" in parsed.query else {"connect_timeout": 10},
        )
        sa.event.listen(engine, "connect", _set_up_postgresql)
        return cls(engine, f"the store {shown}")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise whatever the database complains about as a `StoreError`."""
        try:
            yield
        except (sa.exc.SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error) as error:
            raise StoreError(self._explained(error)) from error

    def connect(self) -> sa.Connection:
        """Return a connection whose transactions are for writing."""
        with self.errors():
            return self.engine.connect().execution_options(immediate=True)

    @contextmanager
    def changing(self) -> Iterator[sa.Connection]:
        """Open a transaction that nobody else is in; what it does is committed at its end."""
        with self.errors(), self.connect() as connection, connection.begin():
            if not self.is_sqlite:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK_SPACE}, 0)")
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a transaction that sees the database as it is at its start, whoever writes meanwhile."""
        with self.errors(), self.engine.connect() as connection:
            if not self.is_sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    def insert(
        self, connection: sa.Connection, table: sa.TableClause, rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Add rows, given in the order of the table's columns, in the quickest way that there is."""
        if self.is_sqlite:
            connection.exec_driver_sql(_insertion(table, self.is_sqlite), rows)
            return
        driver: Any = connection.connection
        statement = f"COPY {table.name} ({', '.join(table.c.keys())}) FROM STDIN"
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def insert_new(
        self, connection: sa.Connection, table: sa.TableClause, rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Add rows, passing over those whose key is there already."""
        connection.exec_driver_sql(_insertion(table, self.is_sqlite, pass_over=True), rows)

    def close(self) -> None:
        """Close all connections that are not in use."""
        self.engine.dispose()

    def _explained(self, error: Exception) -> str:
        cause = str(getattr(error, "orig", None) or error).strip()
        first = cause.splitlines()[0] if cause else type(error).__name__
        for sign, advice in _ADVICE:
            if re.search(sign, f"{type(error).__name__}: {first}", re.IGNORECASE):
                return f"{self.name}: {first}; {advice}"
        return f"{self.name}: {first}"


_ADVICE = (
    ("disk is full|No space left", "make room and run again: all that was acknowledged is kept"),
    (
        "database is locked",
        f"another process has kept it busy for {_PATIENCE} seconds: end that and run again",
    ),
    (
        "unable to open|readonly",
        "see that its folder and its files may be written to, or choose another home",
    ),
    (
        "disk I/O error",
        "see that the disk is in order and has room, and run again: all that was acknowledged is kept",
    ),
    ("not a database|malformed", "the file is damaged or not Hippo's: move it away, or choose another home"),
    ("IntegrityError|UniqueViolation", "the plan has this fact already: something else has written to it"),
    (
        "password|authentication|role .* does not exist|database .* does not exist",
        "see that the URL names a user and a database that exist, with the right password",
    ),
    (
        "OperationalError|InterfaceError|AdminShutdown",
        "see that the database is up and can be reached, and run again: all that was acknowledged is kept",
    ),
)


def _without_password(url: str) -> str:
    return re.sub(r"(password=)[^&]*", r"\1***", re.sub(r"(://[^:@/]*:).*@", r"\1***@", url))


@functools.cache
def _insertion(table: sa.TableClause, is_sqlite: bool, pass_over: bool = False) -> str:
    """Return the statement that adds rows given as tuples, which is the quickest thing to give a driver."""
    family: Any = import_module(f"sqlalchemy.dialects.{'sqlite' if is_sqlite else 'postgresql'}")
    parameters = "qmark" if is_sqlite else "format"
    statement = family.insert(table)
    if pass_over:
        statement = statement.on_conflict_do_nothing()
    return str(statement.compile(dialect=family.dialect(paramstyle=parameters)))


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver leaves transactions alone; see `_begin_sqlite`
    for setting in _SQLITE_SETTINGS:
        connection.execute(setting)


def _begin_sqlite(connection: sa.Connection) -> None:
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _set_up_postgresql(connection: Any, _: object) -> None:
    for setting in _POSTGRESQL_SETTINGS:
        connection.execute(setting)
    connection.commit()


def _make_durable(folder: Path) -> None:
    """Make a folder with those above it, so that it is there after a loss of power too."""
    if folder.is_dir():
        return
    _make_durable(folder.parent)
    folder.mkdir(exist_ok=True)
    above = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(above)
    finally:
        os.close(above)
