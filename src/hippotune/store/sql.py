"""The facts of one plan in a database: a write is one transaction, a read sees one moment.

Checkpoints are written with a keyed check. `read` passes over those whose check is missing or wrong. A plan
that is open for writing always has the key: what it yields may be loaded. A plan that is only looked at is
checked where this process can read the key; what it yields is for showing and counting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from secrets import token_hex

import sqlalchemy as sa

from hippotune.errors import InvalidInput, StoreError
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import (
    CheckpointDropped,
    CheckpointKept,
    Fact,
    MeasuredSteps,
    NodeAdded,
    NumbersRecorded,
    RequestMade,
    SpanRecorded,
)
from hippotune.sequences.config import Config
from hippotune.store.base import ConnectionLost, Store
from hippotune.store.checkpoint_rows import CheckpointRows
from hippotune.store.claim import SetAside, claim
from hippotune.store.database import Database, rows_of
from hippotune.store.lock import PlanLock, SessionLock
from hippotune.store.rows import (
    DAMAGED,
    NOTE,
    NUMBERED,
    Batch,
    Numbers,
    Row,
    check_value,
    configs_from,
    is_damaged,
    logged_from,
    proofs_from,
    results_from,
    sequences_from,
)
from hippotune.store.schema import (
    CHECKPOINTS,
    CONFIGS,
    LOGGED,
    NODES,
    PROOFS,
    REQUESTS,
    RESULTS,
    SEQUENCES,
    SPANS,
)
from hippotune.store.secret import Secret
from hippotune.store.storage import CheckpointStorage

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
        self._plan = self.number = plan
        self._checkpoints = CheckpointRows(database, plan, key, open_secret)
        self._connection = connection
        self._lock = lock
        self._numbers: Numbers | None = None
        self._is_uncertain = False  # whether the last batch was stored

    def write(self, facts: Sequence[Fact]) -> None:
        """Add facts in one transaction."""
        if self._connection is None:
            raise StoreError(f"the plan {self.key.digest} is not open for writing; Catalog.plan opens it so")
        if not facts:
            return
        numbers = self._numbers if self._numbers is not None else self._load_numbers()
        batch = Batch(self._plan, numbers, facts)
        if batch.checkpoints:
            self._checkpoints.open_key()  # which looks at the plan, in a transaction of its own
        with self._connected() as connection, connection.begin():
            if not (self._is_uncertain and self._has(connection, batch)):
                self._insert(connection, batch)
        self._is_uncertain = False
        numbers.take_in(batch)

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        """Yield the connection that holds the lock; where it was lost, another one that takes it again."""
        assert self._connection is not None
        database = self._database
        try:
            with database.errors():
                if self._connection.closed:
                    self._connection = database.connect_anew()
                with database.expecting_answer(self._connection):
                    if isinstance(self._lock, SessionLock):
                        self._lock.hold_by(self._connection)
                    yield self._connection
        except ConnectionLost:
            self._is_uncertain = True
            if not self._connection.closed:
                self._connection.invalidate()
                self._connection.close()
            raise

    def _has(self, connection: sa.Connection, batch: Batch) -> bool:
        """Return whether a batch was stored after all; the lock kept others from numbering rows meanwhile.

        What has no number of its own, requests and checkpoints, may be stored twice: it is the same then.
        """
        for table, rows in batch.rows.items():
            if rows and table is not REQUESTS:
                plan, number = list(table.c)[:2]
                query = sa.select(plan).where(plan == self._plan, number == rows[0][1])
                return connection.execute(query).first() is not None
        return False

    def _insert(self, connection: sa.Connection, batch: Batch) -> None:
        for table, rows in batch.rows.items():
            checked = [(*row, check_value(row)) for row in rows]
            if checked and table is REQUESTS:
                self._database.insert_new(connection, table, checked)
            elif checked:
                self._database.insert(connection, table, checked)
        if batch.compared:
            connection.execute(
                _DELETE_NOTE,
                [{"at_plan": self._plan, "at_node": node, "at_step": step} for node, step in batch.compared],
            )
        if batch.checkpoints:
            self._checkpoints.change(connection, batch.checkpoints)

    def read(self) -> Iterator[Fact]:
        """Yield what is still so. Checkpoints that are not this plan's own are passed over."""
        self._checkpoints.open_key()  # first of all: where it cannot be used, nothing is done
        with self._database.reading() as connection:
            configs = self._read_configs(connection)
            for rows in self._facts(connection, NODES, by="node"):
                yield from [
                    NodeAdded(node, parent, start, configs[config], isolation_key)
                    for node, parent, start, config, isolation_key in rows
                ]
            yield from self._checkpoints.read(connection)
            for rows in self._facts(connection, RESULTS):
                yield from results_from(rows)
            for rows in self._facts(connection, PROOFS):
                yield from proofs_from(rows)
            for rows in self._facts(connection, REQUESTS):
                yield from [
                    RequestMade(study, trial, configs[config], step) for study, trial, config, step in rows
                ]

    def checkpoints(self) -> Iterator[CheckpointKept]:
        """Yield all checkpoints that are named, checked or not: for looking at files, not for loading."""
        with self._database.reading() as connection:
            yield from self._checkpoints.read(connection, checked=False)

    def sorted_checkpoints(self) -> tuple[list[CheckpointKept], list[CheckpointKept]]:
        """Return the checkpoints that `read` yields, and those that it refuses."""
        with self._database.reading() as connection:
            accepted = list(self._checkpoints.read(connection))
        return accepted, [kept for kept in self.checkpoints() if kept not in accepted]

    def claim(self, files: CheckpointStorage, look_only: bool = False) -> SetAside | None:
        """See that a folder of checkpoints belongs to the plan."""
        return claim(self._database, files, self._known_names, look_only)

    def give_up_checkpoints(self, files: CheckpointStorage) -> int:
        """Forget all checkpoints of a plan whose key is lost, and set their files aside; return how many."""
        files.set_aside(set(), token_hex(4))
        with self._database.changing() as connection:
            mine = CHECKPOINTS.c.plan == self._plan
            return connection.execute(sa.delete(CHECKPOINTS).where(mine)).rowcount

    def _known_names(self) -> set[str]:
        return {kept.checkpoint.name for kept in self.checkpoints()}

    def drop_refused(self) -> int:
        """Forget the checkpoints that `read` has passed over."""
        refused = list(self._checkpoints.refused)
        self._checkpoints.refused.clear()
        self.write([CheckpointDropped(position) for position in refused])
        return len(refused)

    def spans(self) -> Iterator[SpanRecorded]:
        """Yield the worker time that was recorded."""
        with self._database.reading() as connection:
            for rows in self._facts(connection, SPANS):
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
        with self._database.reading() as connection:
            for rows in self._facts(connection, LOGGED, "ordinal", node, _LONG_ROWS_AT_A_TIME):
                yield from logged_from(rows)

    def close(self) -> None:
        """Let go of the plan and its lock."""
        connection, self._connection = self._connection, None
        if connection is None or self._lock is None:
            return
        if connection.closed:  # its session is gone, and what it had locked is free
            self._lock.release()
            return
        with suppress(StoreError), self._database.errors(), self._database.expecting_answer(connection):
            self._lock.release()
            connection.close()

    def _facts(
        self,
        connection: sa.Connection,
        table: sa.TableClause,
        by: str = "ordinal",
        node: int | None = None,
        many: int = _ROWS_AT_A_TIME,
    ) -> Iterator[list[Row]]:
        """Yield the plan's rows of a table of facts, or those of a node, many at a time.

        They are checked, and without what only serves to find them.
        """
        names = [column.name for column in table.c]
        first = 1 if table in (NODES, RESULTS) else 2
        mine = [table.c.plan == self._plan, *([] if node is None else [table.c.node == node])]
        for rows in rows_of(connection, sa.select(*table.c).where(*mine).order_by(table.c[by]), many):
            if damaged := next(filter(is_damaged, rows), None):
                where = f"{table.name} ({names[0]} {damaged[0]}, {names[1]} {damaged[1]})"
                raise StoreError(
                    f"{self._database.name}: a row of {where} is not what was written: {DAMAGED}"
                )
            yield [row[first:-1] for row in rows]

    def _read_configs(self, connection: sa.Connection) -> list[Config]:
        """Return the plan's configs by number. A store that is written to remembers the numbers."""
        bodies = [row for rows in self._facts(connection, SEQUENCES, by="id") for row in rows]
        try:
            sequences = sequences_from(bodies)
        except InvalidInput as error:
            raise StoreError(
                f"the plan {self.key.digest} holds a sequence that cannot be read: {error}"
            ) from error
        bodies = [row for rows in self._facts(connection, CONFIGS, by="id") for row in rows]
        configs = configs_from(bodies, sequences)
        if self._connection is not None and self._numbers is None:
            self._numbers = Numbers(sequences, configs)
            for table in NUMBERED:
                self._numbers.ordinals[table] = self._next_ordinal(connection, table)
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


_DELETE_NOTE = sa.delete(PROOFS).where(
    PROOFS.c.plan == sa.bindparam("at_plan"),
    PROOFS.c.kind == NOTE,
    PROOFS.c.node == sa.bindparam("at_node"),
    PROOFS.c.step == sa.bindparam("at_step"),
)
