"""The two databases, and all that differs between them: opening, locking, filling, and how they fail.

A commit is on disk before it returns, on both. Everything that goes wrong is raised as a `StoreError` which
says what to do.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import socket
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from hippotune import scratch
from hippotune.errors import InvalidInput, MissingExtra, StoreError
from hippotune.store.base import ConnectionLost

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
# A server that vanished is noticed within a minute too. What a URL says counts instead.
_POSTGRESQL_ARGUMENTS = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# What a server says of connections that it ends, or has no room for; anything else is wrong with a statement.
_LOST = re.compile("08...|57P..|25P03|53300")
LOCK_SPACE = 0x48697070
"""The first half of the keys of advisory locks; the second is the number of a plan, or 0 for the catalog."""


class Database:
    """An open database, and what it is called in messages."""

    def __init__(self, engine: sa.Engine, name: str, answer_seconds: float | None = None) -> None:
        self.engine = engine
        self.name = name
        self.answer_seconds = answer_seconds
        self.is_sqlite = engine.dialect.name == "sqlite"

    @classmethod
    def at(cls, path: Path) -> Database:
        """Open the SQLite database in a file, which is made where it does not exist.

        One in a folder that may not be written to can be read.
        """
        if path.exists() and not os.access(path.parent, os.W_OK):
            return cls(_reading_only(path), f"the store {path}")
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
        arguments = {**_POSTGRESQL_ARGUMENTS, **parsed.query}
        engine = sa.create_engine(
            parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args=arguments
        )
        try:
            seconds = float(str(arguments["tcp_user_timeout"])) / 1000
        except ValueError:
            seconds = 0.0
        database = cls(engine, f"the store {shown}", seconds or None)
        sa.event.listen(engine, "connect", database._set_up_postgresql)
        return database

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise whatever the database complains about as a `StoreError`."""
        try:
            yield
        except (sa.exc.SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error) as error:
            kind = ConnectionLost if self._says_lost(error) else StoreError
            raise kind(self._explained(error)) from error

    def _says_lost(self, error: Exception) -> bool:
        cause, driver = getattr(error, "orig", None) or error, self.engine.dialect.loaded_dbapi
        if self.is_sqlite or not isinstance(cause, (driver.OperationalError, driver.InterfaceError)):
            return False
        code = getattr(cause, "sqlstate", None)
        return code is None or _LOST.fullmatch(code) is not None

    @contextmanager
    def expecting_answer(self, connection: sa.Connection) -> Iterator[None]:
        """End a connection whose server says nothing for too long: a network may be cut without a word.

        The system notices where nothing arrives over there. It does not where something on the way still
        takes what is sent, such as a proxy or a firewall.
        """
        with _ended_after(self.answer_seconds, connection.connection.dbapi_connection):
            yield

    def connect_anew(self) -> sa.Connection:
        """Return a connection for writing that was not there before."""
        self.engine.dispose()
        return self.connect()

    def connect(self) -> sa.Connection:
        """Return a connection whose transactions are for writing."""
        with self.errors():
            return self.engine.connect().execution_options(immediate=True)

    @contextmanager
    def changing(self) -> Iterator[sa.Connection]:
        """Open an exclusive transaction; it is committed at its end."""
        with self.errors(), self.connect() as connection, connection.begin():
            if not self.is_sqlite:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK_SPACE}, 0)")
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a transaction that sees the database as of its start; others may write meanwhile."""
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

    def _set_up_postgresql(self, connection: Any, _: object) -> None:
        with _ended_after(self.answer_seconds, connection):
            for setting in _POSTGRESQL_SETTINGS:
                connection.execute(setting)
            connection.commit()

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
    (
        "not a database|malformed",
        "the file is damaged or not Hippo's: put a backup back, or move it away",
    ),
    ("IntegrityError|UniqueViolation", "the plan has this fact already: something else has written to it"),
    (
        "password|authentication|role .* does not exist|database .* does not exist",
        "see that the URL names a user and a database that exist, with the right password",
    ),
    (
        "OperationalError|InterfaceError|AdminShutdown",
        "see that the database is up and can be reached; all that was acknowledged is kept",
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


def _reading_only(path: Path) -> sa.Engine:
    """Open a database where SQLite cannot make the files that it needs beside it.

    A log that a killed process left there has to be read with the database: then both are copied first.
    """
    logs = [path.with_name(path.name + ending) for ending in ("-wal", "-shm")]
    options, copy = "mode=ro", None
    if not (logs[0].exists() and logs[0].stat().st_size):
        options += "&immutable=1"
    elif not logs[1].exists():
        copy = tempfile.TemporaryDirectory(dir=scratch.place())
        for file in (path, logs[0]):
            shutil.copy(file, copy.name)
        path, options = Path(copy.name, path.name), "mode=rw"

    def connect() -> sqlite3.Connection:
        assert copy is None or os.path.isdir(copy.name)  # it lasts as long as this function
        return sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?{options}", uri=True, timeout=_PATIENCE, isolation_level=None
        )

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.NullPool)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _begin_sqlite(connection: sa.Connection) -> None:
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


@contextmanager
def _ended_after(seconds: float | None, connection: Any) -> Iterator[None]:
    """Shut a driver's connection down if the block takes too long; none on this machine can be cut."""
    if seconds is None or connection.info.host.startswith("/"):
        yield
        return
    with socket.socket(fileno=os.dup(connection.fileno())) as end:  # whoever has that number later
        timer = threading.Timer(seconds, _shut_down, [end])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _shut_down(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


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
