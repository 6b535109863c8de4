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

from hippotune.errors import StoreError
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import (
    CheckpointDropped,
    CheckpointKept,
    Fact,
    MeasuredSteps,
    NumbersRecorded,
    SpanRecorded,
)
from hippotune.store.base import ConnectionLost, Store, Written
from hippotune.store.check_values import check_value
from hippotune.store.checkpoint_rows import CheckpointRows
from hippotune.store.claim import SetAside, claim
from hippotune.store.database import Database
from hippotune.store.lock import PlanLock
from hippotune.store.log import PlanLog
from hippotune.store.rows import NOTE, Batch, Numbers, RequestKey, forgotten, is_compared
from hippotune.store.schema import ACTIONS, LOGGED, NODES, PROOFS, REQUESTS, RESULTS, SPANS
from hippotune.store.secret import Secret
from hippotune.store.session_lock import SessionLock
from hippotune.store.storage import CheckpointStorage

_KEY = ("study", "trial", "config", "step")
_KEYS_AT_A_TIME = 1000


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
        self._log = PlanLog(database, plan, key.digest)
        self._connection = connection
        self._lock = lock
        self._numbers: Numbers | None = None
        self._uncertain: Batch | None = None  # of which it is not known whether it was stored

    @property
    def incarnation(self) -> str:
        """The id of the plan's log."""
        return self._log.incarnation

    @property
    def last_number(self) -> int:
        """The number of the last fact in the log."""
        with self._database.reading() as connection:
            return self._log.last_number(connection)

    def facts(self, after: int = 0, limit: int | None = None) -> Iterator[tuple[int, Fact]]:
        """Yield the facts after a number."""
        return self._log.facts(after, limit)

    def write(self, facts: Sequence[Fact]) -> Written:
        """Add facts in one transaction."""
        if self._connection is None:
            raise StoreError(f"the plan {self.key.digest} is not open for writing; Catalog.plan opens it so")
        numbers = self._numbers if self._numbers is not None else self._load_numbers()
        if self._uncertain is not None:
            stored = self._settle(self._uncertain, numbers)
            if stored is not None and stored.given == facts:
                return stored.written
        keys = numbers.keys_of(facts)
        batch = Batch(self._plan, numbers, facts, self._known(keys) if keys else ())
        if not batch.written.facts:
            return batch.written
        if batch.checkpoints:
            self._checkpoints.open_key()  # which looks at the plan, in a transaction of its own
        self._store(batch, numbers)
        return batch.written

    def _store(self, batch: Batch, numbers: Numbers) -> None:
        try:
            with self._connected() as connection, connection.begin():
                self._insert(connection, batch)
        except ConnectionLost:
            self._uncertain = batch
            raise
        numbers.take_in(batch)

    def _settle(self, batch: Batch, numbers: Numbers) -> Batch | None:
        """Find out whether a batch was stored after all, and return it if so.

        The lock kept others from numbering facts meanwhile.
        """
        with self._connected() as connection, connection.begin():
            is_stored = self._log.last_number(connection) >= batch.written.first
        self._uncertain = None
        if not is_stored:
            return None
        numbers.take_in(batch)
        return batch

    def _known(self, keys: Sequence[RequestKey]) -> set[RequestKey]:
        """Return those of some requests that are stored; each is looked up by the table's key."""
        known: set[RequestKey] = set()
        with self._database.reading() as connection:
            for first in range(0, len(keys), _KEYS_AT_A_TIME):
                known.update(
                    self._database.found(
                        connection, REQUESTS, self._plan, _KEY, keys[first : first + _KEYS_AT_A_TIME]
                    )
                )
        return known

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
            if not self._connection.closed:
                self._connection.invalidate()
                self._connection.close()
            raise

    def _insert(self, connection: sa.Connection, batch: Batch) -> None:
        for table, rows in batch.rows.items():
            if rows:
                self._database.insert(connection, table, [(*row, check_value(row)) for row in rows])
        if batch.compared:
            self._forget_fingerprints(connection, batch)
        if batch.checkpoints:
            self._checkpoints.change(connection, batch.checkpoints)

    def _forget_fingerprints(self, connection: sa.Connection, batch: Batch) -> None:
        """Let go of states that were compared: nothing reads them any more, and they are large."""
        for node, step in batch.compared:
            place = (PROOFS.c.kind == NOTE, PROOFS.c.node == node, PROOFS.c.step == step)
            query = sa.select(*PROOFS.c).where(PROOFS.c.plan == self._plan, *place)
            for row in connection.execute(query).all():
                this = (PROOFS.c.plan == self._plan, PROOFS.c.number == row.number)
                body, check = forgotten(tuple(row))
                connection.execute(sa.update(PROOFS).where(*this).values(body=body, check_value=check))

    def read(self) -> Iterator[Fact]:
        """Yield what is still so. Checkpoints that are not this plan's own are passed over."""
        self._checkpoints.open_key()  # first of all: where it cannot be used, nothing is done
        log = self._log
        with self._database.reading() as connection:
            self._load_configs(connection)
            for facts in log.table(connection, NODES, by="node"):
                yield from facts
            yield from self._checkpoints.read(connection)
            for facts in log.table(connection, RESULTS, by="ordinal"):
                yield from facts
            for facts in log.table(connection, PROOFS):
                yield from (fact for fact in facts if not is_compared(fact))
            for table in (REQUESTS, ACTIONS):
                for facts in log.table(connection, table):
                    yield from facts

    def checkpoints(self) -> Iterator[CheckpointKept]:
        """Yield all checkpoints that are named, checked or not: for looking at files, not for loading."""
        with self._database.reading() as connection:
            yield from self._checkpoints.read(connection, checked=False)

    def sorted_checkpoints(self) -> tuple[list[CheckpointKept], list[CheckpointKept]]:
        """Return the checkpoints that `read` yields, and those that it refuses."""
        with self._database.reading() as connection:
            accepted = list(self._checkpoints.read(connection))
            refused = set(self._checkpoints.read(connection, checked=False)).difference(accepted)
        return accepted, sorted(refused, key=lambda kept: kept.position)

    def claim(self, files: CheckpointStorage, look_only: bool = False) -> SetAside | None:
        """See that a folder of checkpoints belongs to the plan."""
        return claim(self._database, self._plan, files, self._known_names, look_only)

    def give_up_checkpoints(self, files: CheckpointStorage) -> int:
        """Forget all checkpoints of a plan whose key is lost, and set their files aside; return how many."""
        files.set_aside(set(), token_hex(4))
        dropped = [CheckpointDropped(kept.position) for kept in self.checkpoints()]
        numbers = self._load_numbers()
        self._store(Batch(self._plan, numbers, dropped), numbers)
        return len(dropped)

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
            for facts in self._log.table(connection, SPANS):
                yield from facts  # type: ignore[misc]

    def step_times(self) -> Iterator[MeasuredSteps]:
        """Yield what steps took by node and width, the least recently trained first."""
        spans = SPANS.c
        steps, seconds = spans.last_step - spans.first_step, spans.seconds
        query = (
            sa.select(spans.node, spans.width, sa.func.sum(steps), sa.func.sum(seconds))
            .where(spans.plan == self._plan, spans.kind == "train", seconds.is_not(None), steps > 0)
            .group_by(spans.node, spans.width)
            .order_by(sa.func.max(spans.number))
        )
        with self._database.reading() as connection:
            for node, width, trained, spent in connection.execute(query):
                yield MeasuredSteps(node, width, int(trained), spent)

    def logged(self, node: int) -> Iterator[NumbersRecorded]:
        """Yield what was logged along a node."""
        with self._database.reading() as connection:
            for facts in self._log.table(connection, LOGGED, node=node):
                yield from facts  # type: ignore[misc]

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

    def _load_configs(self, connection: sa.Connection) -> None:
        """Read the plan's configs. A store that is written to remembers their numbers."""
        self._log.read_configs(connection)
        if self._connection is not None and self._numbers is None:
            last = self._log.last_number(connection)
            self._numbers = Numbers(self._log.sequences, self._log.configs, last)

    def _load_numbers(self) -> Numbers:
        with self._database.reading() as connection:
            self._load_configs(connection)
        assert self._numbers is not None
        return self._numbers
