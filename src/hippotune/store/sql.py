"""The facts of one plan in a database: a write is one transaction, a read sees one moment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from hippotune.errors import InvalidInput, StoreError
from hippotune.plan.facts import (
    Checkpoint,
    CheckpointKept,
    Fact,
    NodeAdded,
    NumbersRecorded,
    Position,
    RequestMade,
    SpanRecorded,
)
from hippotune.sequences.config import Config
from hippotune.store.base import Store
from hippotune.store.database import Database
from hippotune.store.key import PlanKey
from hippotune.store.lock import PlanLock
from hippotune.store.rows import Batch, Numbers, Row, configs_from, logged_from, results_from, sequences_from
from hippotune.store.schema import CHECKPOINTS, CONFIGS, LOGGED, NODES, REQUESTS, RESULTS, SEQUENCES, SPANS

_ROWS_AT_A_TIME = 10_000
_LONG_ROWS_AT_A_TIME = 100


class SqlStore(Store):
    """The facts of one plan. With a connection of its own and a lock it can be written to, else only read."""

    def __init__(
        self,
        database: Database,
        plan: int,
        key: PlanKey,
        connection: sa.Connection | None = None,
        lock: PlanLock | None = None,
    ) -> None:
        self.key = key
        self._database = database
        self._plan = plan
        self._connection = connection
        self._lock = lock
        self._numbers: Numbers | None = None

    def write(self, facts: Sequence[Fact]) -> None:
        """Add facts in one transaction."""
        if self._connection is None:
            raise StoreError(f"the plan {self.key.digest} is not open for writing; Catalog.plan opens it so")
        if not facts:
            return
        numbers = self._numbers if self._numbers is not None else self._load_numbers()
        batch = Batch(self._plan, numbers, facts)
        with self._database.errors(), self._connection.begin():
            self._insert(self._connection, batch)
        numbers.take_in(batch)

    def _insert(self, connection: sa.Connection, batch: Batch) -> None:
        for table, rows in batch.rows.items():
            if rows and table is REQUESTS:
                self._database.insert_new(connection, table, rows)
            elif rows:
                self._database.insert(connection, table, rows)
        if batch.checkpoints:
            connection.execute(
                _DELETE_CHECKPOINT,
                [
                    {"at_plan": self._plan, "at_node": node, "at_step": step}
                    for node, step in batch.checkpoints
                ],
            )
            kept = [
                (self._plan, *position, checkpoint.name, checkpoint.bytes, checkpoint.checksum)
                for position, checkpoint in batch.checkpoints.items()
                if checkpoint is not None
            ]
            if kept:
                self._database.insert(connection, CHECKPOINTS, kept)

    def read(self) -> Iterator[Fact]:
        """Yield what is still so."""
        with self._database.reading() as connection:
            configs = self._read_configs(connection)
            for rows in self._rows(connection, NODES, "node, parent, start, config, salt", by="node"):
                yield from [
                    NodeAdded(node, parent, start, configs[config], salt)
                    for node, parent, start, config, salt in rows
                ]
            yield from self._read_checkpoints(connection)
            for rows in self._rows(connection, RESULTS, "ordinal, node, step, metrics, error", by="ordinal"):
                yield from results_from(rows)
            for rows in self._rows(connection, REQUESTS, "study, trial, config, step", by="ordinal"):
                yield from [
                    RequestMade(study, trial, configs[config], step) for study, trial, config, step in rows
                ]

    def checkpoints(self) -> Iterator[CheckpointKept]:
        """Yield the checkpoints that are kept, without all else that `read` yields."""
        with self._database.reading() as connection:
            yield from self._read_checkpoints(connection)

    def spans(self) -> Iterator[SpanRecorded]:
        """Yield the worker time that was recorded."""
        columns = "worker, lease, node, kind, first_step, last_step, began, ended, width"
        with self._database.reading() as connection:
            for rows in self._rows(connection, SPANS, columns, by="ordinal"):
                yield from [SpanRecorded(*row) for row in rows]

    def logged(self, node: int) -> Iterator[NumbersRecorded]:
        """Yield what was logged along a node."""
        columns = "node, first_step, last_step, steps, numbers"
        with self._database.reading() as connection:
            for rows in self._rows(connection, LOGGED, columns, "ordinal", node, _LONG_ROWS_AT_A_TIME):
                yield from logged_from(rows)

    def close(self) -> None:
        """Let go of the plan and its lock."""
        connection, self._connection = self._connection, None
        if self._lock is not None:
            self._lock.release()
        if connection is not None:
            connection.close()

    def _rows(
        self,
        connection: sa.Connection,
        table: sa.TableClause,
        columns: str,
        by: str,
        node: int | None = None,
        many: int = _ROWS_AT_A_TIME,
    ) -> Iterator[Sequence[Row]]:
        """Yield the plan's rows of a table, or those of a node, many at a time.

        They are as the driver gives them: plain tuples.
        """
        query = (
            sa.select(*(table.c[name] for name in columns.split(", ")))
            .where(table.c.plan == self._plan, *([] if node is None else [table.c.node == node]))
            .order_by(*(table.c[name] for name in by.split(", ")))
        )
        cursor = connection.execute(query).cursor
        while cursor is not None and (rows := cursor.fetchmany(many)):
            yield rows

    def _read_checkpoints(self, connection: sa.Connection) -> Iterator[CheckpointKept]:
        columns = "node, step, name, bytes, checksum"
        for rows in self._rows(connection, CHECKPOINTS, columns, by="node, step"):
            yield from [
                CheckpointKept(Position(node, step), Checkpoint(name, size, checksum))
                for node, step, name, size, checksum in rows
            ]

    def _read_configs(self, connection: sa.Connection) -> list[Config]:
        """Return the plan's configs by number. A store that is written to remembers the numbers."""
        bodies = [row for rows in self._rows(connection, SEQUENCES, "body", by="id") for row in rows]
        try:
            sequences = sequences_from(bodies)
        except InvalidInput as error:
            raise StoreError(
                f"the plan {self.key.digest} holds a sequence that cannot be read: {error}"
            ) from error
        bodies = [row for rows in self._rows(connection, CONFIGS, "body", by="id") for row in rows]
        configs = configs_from(bodies, sequences)
        if self._connection is not None and self._numbers is None:
            self._numbers = Numbers(sequences, configs)
            self._numbers.next_request = self._next_ordinal(connection, REQUESTS)
            self._numbers.next_span = self._next_ordinal(connection, SPANS)
            self._numbers.next_logged = self._next_ordinal(connection, LOGGED)
        return configs

    def _load_numbers(self) -> Numbers:
        with self._database.reading() as connection:
            self._read_configs(connection)
        assert self._numbers is not None
        return self._numbers

    def _next_ordinal(self, connection: sa.Connection, table: sa.TableClause) -> int:
        query = sa.select(sa.func.max(table.c.ordinal)).where(table.c.plan == self._plan)
        last: int | None = connection.execute(query).scalar_one()
        return 0 if last is None else last + 1


_DELETE_CHECKPOINT = sa.delete(CHECKPOINTS).where(
    CHECKPOINTS.c.plan == sa.bindparam("at_plan"),
    CHECKPOINTS.c.node == sa.bindparam("at_node"),
    CHECKPOINTS.c.step == sa.bindparam("at_step"),
)
