"""The facts of one plan in a database: a write is one transaction, a read sees one moment.

Checkpoints are written with a keyed check. `read` passes over those whose check is missing or wrong. A plan
that is open for writing always has the key: what it yields may be loaded. A plan that is only looked at is
checked where this process can read the key; what it yields is for showing and counting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import sqlalchemy as sa

from hippotune.errors import InvalidInput, StoreError
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import (
    Checkpoint,
    CheckpointDropped,
    CheckpointKept,
    Fact,
    MeasuredSteps,
    NodeAdded,
    NumbersRecorded,
    Position,
    RequestMade,
    SpanRecorded,
)
from hippotune.sequences.config import Config
from hippotune.store.base import Store
from hippotune.store.database import Database
from hippotune.store.lock import PlanLock
from hippotune.store.rows import Batch, Numbers, Row, configs_from, logged_from, results_from, sequences_from
from hippotune.store.schema import CHECKPOINTS, CONFIGS, LOGGED, NODES, REQUESTS, RESULTS, SEQUENCES, SPANS
from hippotune.store.secret import Secret

_ROWS_AT_A_TIME = 10_000
_LONG_ROWS_AT_A_TIME = 100


class SqlStore(Store):
    """The facts of one plan. With a connection of its own and a lock it can be written to, else only read."""

    def __init__(
        self,
        database: Database,
        plan: int,
        key: PlanKey,
        open_secret: Callable[[], Secret | None],
        connection: sa.Connection | None = None,
        lock: PlanLock | None = None,
    ) -> None:
        self.key = key
        self._database = database
        self._plan = plan
        self._open_secret = open_secret
        self._refused: list[Position] = []
        self._connection = connection
        self._lock = lock
        self._numbers: Numbers | None = None

    @cached_property
    def _secret(self) -> Secret | None:
        return self._open_secret()

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
                (
                    self._plan,
                    *position,
                    checkpoint.name,
                    checkpoint.bytes,
                    checkpoint.checksum,
                    self._check_of(position, checkpoint),
                )
                for position, checkpoint in batch.checkpoints.items()
                if checkpoint is not None
            ]
            if kept:
                self._database.insert(connection, CHECKPOINTS, kept)

    def _check_of(self, position: Position, checkpoint: Checkpoint) -> str:
        assert self._secret is not None
        return self._secret.check_of(self.key.digest, position, checkpoint)

    def read(self) -> Iterator[Fact]:
        """Yield what is still so. Checkpoints that are not this plan's own are passed over."""
        secret = self._secret  # first of all: where it cannot be used, nothing is done
        self._refused = []
        with self._database.reading() as connection:
            configs = self._read_configs(connection)
            for rows in self._rows(connection, NODES, "node, parent, start, config, salt", by="node"):
                yield from [
                    NodeAdded(node, parent, start, configs[config], salt)
                    for node, parent, start, config, salt in rows
                ]
            yield from self._read_checkpoints(connection, secret)
            for rows in self._rows(connection, RESULTS, "ordinal, node, step, metrics, error", by="ordinal"):
                yield from results_from(rows)
            for rows in self._rows(connection, REQUESTS, "study, trial, config, step", by="ordinal"):
                yield from [
                    RequestMade(study, trial, configs[config], step) for study, trial, config, step in rows
                ]

    def checkpoints(self) -> Iterator[CheckpointKept]:
        """Yield all checkpoints that are named, checked or not: for looking at files, not for loading."""
        with self._database.reading() as connection:
            yield from self._read_checkpoints(connection, None)

    def drop_refused(self) -> int:
        """Forget the checkpoints that `read` has passed over."""
        refused, self._refused = self._refused, []
        self.write([CheckpointDropped(position) for position in refused])
        return len(refused)

    def spans(self) -> Iterator[SpanRecorded]:
        """Yield the worker time that was recorded."""
        columns = "worker, lease, node, kind, first_step, last_step, began, ended, width, seconds"
        with self._database.reading() as connection:
            for rows in self._rows(connection, SPANS, columns, by="ordinal"):
                yield from [SpanRecorded(*row) for row in rows]

    def step_times(self) -> Iterator[MeasuredSteps]:
        """Yield what steps took by node and width, the least recently trained first."""
        spans = SPANS.c
        steps, seconds = spans.last_step - spans.first_step, spans.seconds
        query = (
            sa.select(spans.node, spans.width, sa.func.sum(steps), sa.func.sum(seconds))
            .where(spans.plan == self._plan, spans.kind == "train", seconds.is_not(None), steps > 0)
            .group_by(spans.node, spans.width)
            .order_by(sa.func.max(spans.ordinal))
        )
        with self._database.reading() as connection:
            for node, width, trained, spent in connection.execute(query):
                yield MeasuredSteps(node, width, int(trained), spent)

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

    def _read_checkpoints(self, connection: sa.Connection, secret: Secret | None) -> Iterator[CheckpointKept]:
        columns = "node, step, name, bytes, checksum, keyed_check"
        for rows in self._rows(connection, CHECKPOINTS, columns, by="node, step"):
            for node, step, name, size, checksum, check in rows:
                position, checkpoint = Position(node, step), Checkpoint(name, size, checksum)
                if secret is None or secret.accepts(check, self.key.digest, position, checkpoint):
                    yield CheckpointKept(position, checkpoint)
                else:
                    self._refused.append(position)

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
