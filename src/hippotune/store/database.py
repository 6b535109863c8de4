"""A database, SQLite or PostgreSQL: transactions, filling tables, and how it fails.

A commit is on disk before it returns, on both. Everything that goes wrong is raised as a `StoreError` which
says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hippotune.errors import StoreError
from hippotune.store import postgresql, sqlite
from hippotune.store.base import ConnectionLost

_ROWS_AT_A_TIME = 10_000


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
        return cls(sqlite.open_file(path), f"the store {path}")

    @classmethod
    def by(cls, url: str) -> Database:
        """Open the PostgreSQL database behind a URL."""
        engine, shown, answer_seconds = postgresql.open_url(url)
        return cls(engine, f"the store {shown}", answer_seconds)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise errors of the database as a `StoreError`."""
        try:
            yield
        except (sa.exc.SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error) as error:
            kind = ConnectionLost if self._says_lost(error) else StoreError
            raise kind(self._explained(error)) from error

    def _says_lost(self, error: Exception) -> bool:
        cause, driver = getattr(error, "orig", None) or error, self.engine.dialect.loaded_dbapi
        if self.is_sqlite or not isinstance(cause, (driver.OperationalError, driver.InterfaceError)):
            return False
        return postgresql.says_lost(cause)

    @contextmanager
    def expecting_answer(self, connection: sa.Connection) -> Iterator[None]:
        """End a connection whose server says nothing for too long: a network may be cut without a word.

        The system notices where nothing arrives over there. It does not where something on the way still
        takes what is sent, such as a proxy or a firewall.
        """
        with postgresql.ended_after(self.answer_seconds, connection.connection.dbapi_connection):
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
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({postgresql.LOCK_SPACE}, 0)")
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
        columns = table.c.keys()
        into = f"{table.name} ({', '.join(columns)})"
        if self.is_sqlite:
            values = ", ".join("?" for _ in columns)
            connection.exec_driver_sql(f"INSERT INTO {into} VALUES ({values})", rows)
            return
        driver: Any = connection.connection
        statement = f"COPY {into} FROM STDIN"
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def found(
        self,
        connection: sa.Connection,
        table: sa.TableClause,
        plan: int,
        columns: Sequence[str],
        keys: Sequence[tuple[Any, ...]],
    ) -> list[tuple[Any, ...]]:
        """Return those of some keys, given by columns, that a plan has rows of: each is looked up."""
        place = "?" if self.is_sqlite else "%s"
        row = f"({', '.join(place for _ in columns)})"
        same = " AND ".join(f"stored.{name} = asked.{name}" for name in columns)
        # A cross join keeps SQLite from going through the whole table instead.
        query = (
            f"WITH asked ({', '.join(columns)}) AS (VALUES {', '.join(row for _ in keys)}) "
            f"SELECT asked.* FROM asked CROSS JOIN {table.name} AS stored "
            f"WHERE stored.plan = {place} AND {same}"
        )
        values = tuple(value for key in keys for value in key)
        return [tuple(found) for found in connection.exec_driver_sql(query, (*values, plan))]

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
        f"another process has kept it busy for {sqlite.BUSY_SECONDS} seconds: end that and run again",
    ),
    (
        "unable to open|readonly",
        "check that its folder and its files are writable, or choose another home",
    ),
    (
        "disk I/O error",
        "check that the disk works and has room, and run again: all that was acknowledged is kept",
    ),
    (
        "not a database|malformed",
        "the file is damaged or not Hippo's: put a backup back, or move it away",
    ),
    (
        "no such table|UndefinedTable|NoResultFound",
        "what every store has is missing: put a backup of the database back",
    ),
    ("IntegrityError|UniqueViolation", "the plan has this fact already: something else has written to it"),
    (
        "password|authentication|role .* does not exist|database .* does not exist",
        "check that the URL names a user and a database that exist, with the right password",
    ),
    (
        "OperationalError|InterfaceError|AdminShutdown",
        "check that the database is up and can be reached; all that was acknowledged is kept",
    ),
)


def rows_of(
    connection: sa.Connection, query: sa.Select[Any], many: int = _ROWS_AT_A_TIME
) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Yield what a query finds, many rows at a time: plain tuples, as the driver gives them."""
    cursor = connection.execute(query).cursor
    while cursor is not None and (rows := cursor.fetchmany(many)):
        yield rows
