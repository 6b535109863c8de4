"""The rows of one plan, read back: table by table, or as its log, fact by fact.

Every row is checked. Configs are read once and remembered: a reader that comes back for what is new reads
only that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from hippotune.errors import InvalidInput, StoreError
from hippotune.plan.facts import Fact
from hippotune.sequences.base import Sequence as HyperSequence
from hippotune.sequences.config import Config
from hippotune.store.check_values import DAMAGED, MISSING, Row, is_damaged
from hippotune.store.database import Database, rows_of
from hippotune.store.rows import (
    bodies_from,
    configs_from,
    logged_from,
    nodes_from,
    proofs_from,
    requests_from,
    results_from,
    sequences_from,
    spans_from,
)
from hippotune.store.schema import (
    CONFIGS,
    LOG,
    LOGGED,
    NODES,
    PLANS,
    PROOFS,
    REQUESTS,
    RESULTS,
    SEQUENCES,
    SPANS,
)

_ROWS_AT_A_TIME = 10_000
_LONG_ROWS_AT_A_TIME = 100
_FACTS_AT_A_TIME = 1000


class PlanLog:
    """See the module. `digest` is what the plan is called in messages."""

    def __init__(self, database: Database, plan: int, digest: str) -> None:
        self.sequences: list[HyperSequence] = []
        self.configs: list[Config] = []
        self._database = database
        self._plan = plan
        self._digest = digest

    @property
    def incarnation(self) -> str:
        """The id of the log."""
        query = sa.select(PLANS.c.incarnation).where(PLANS.c.id == self._plan)
        with self._database.reading() as connection:
            return str(connection.execute(query).scalar_one())

    def last_number(self, connection: sa.Connection) -> int:
        """Return the number of the last fact."""
        ends = [sa.select(sa.func.max(table.c.number)).where(table.c.plan == self._plan) for table in LOG]
        return max(row[0] or 0 for row in connection.execute(sa.union_all(*ends)))

    def facts(self, after: int, limit: int | None) -> Iterator[tuple[int, Fact]]:
        """Yield the facts after a number, each with its own. No transaction is open between two of them."""
        with self._database.reading() as connection:
            last = self.last_number(connection)
        if limit is not None:
            last = min(last, after + limit)
        while after < last:
            until = min(after + _FACTS_AT_A_TIME, last)
            with self._database.reading() as connection:
                found = self._between(connection, after, until)
            yield from found
            after = until

    def _between(self, connection: sa.Connection, after: int, until: int) -> list[tuple[int, Fact]]:
        self.read_configs(connection)
        found: list[tuple[int, Fact]] = []
        for table in LOG:
            here = (table.c.number > after, table.c.number <= until)
            for rows in self._checked(connection, table, "number", *here):
                numbers = [row[1] for row in rows]
                found += zip(numbers, self._made(table, rows), strict=True)
        found.sort(key=itemgetter(0))
        return found

    def table(
        self, connection: sa.Connection, table: sa.TableClause, by: str = "number", node: int | None = None
    ) -> Iterator[Sequence[Fact]]:
        """Yield the facts in a table, or those of a node, many at a time."""
        many = _LONG_ROWS_AT_A_TIME if table is LOGGED else _ROWS_AT_A_TIME
        here = () if node is None else (table.c.node == node,)
        for rows in self._checked(connection, table, by, *here, many=many):
            yield self._made(table, rows)

    def _made(self, table: sa.TableClause, rows: Sequence[Row]) -> Sequence[Fact]:
        values = [row[2:-1] for row in rows]
        if table in (NODES, REQUESTS):
            return (nodes_from if table is NODES else requests_from)(values, self.configs)
        make: Callable[[Sequence[Row]], Sequence[Fact]] = _MAKERS.get(table, bodies_from)
        return make(values)

    def read_configs(self, connection: sa.Connection) -> None:
        """Read the plan's configs, as far as they are not known yet."""
        try:
            for rows in self._new(connection, SEQUENCES, len(self.sequences)):
                self.sequences += sequences_from(rows)
        except InvalidInput as error:
            raise StoreError(
                f"the plan {self._digest} holds a sequence that cannot be read: {error}"
            ) from error
        for rows in self._new(connection, CONFIGS, len(self.configs)):
            self.configs += configs_from(rows, self.sequences)

    def _new(self, connection: sa.Connection, table: sa.TableClause, known: int) -> Iterator[list[Row]]:
        for rows in self._checked(connection, table, "id", table.c.id >= known, known=known):
            yield [row[2:-1] for row in rows]

    def _checked(
        self,
        connection: sa.Connection,
        table: sa.TableClause,
        by: str,
        *where: sa.ColumnElement[bool],
        many: int = _ROWS_AT_A_TIME,
        known: int = 0,
    ) -> Iterator[Sequence[Row]]:
        """Yield the plan's rows of a table, many at a time. Raises `StoreError` where one is damaged.

        Nodes, configs and sequences are counted from 0 on, so that a gap is noticed too.
        """
        counted = [column.name for column in table.c].index(by) if by in ("id", "node") else None
        query = sa.select(*table.c).where(table.c.plan == self._plan, *where).order_by(table.c[by])
        for rows in rows_of(connection, query, many):
            if damaged := next(filter(is_damaged, rows), None):
                first, second = list(table.c)[:2]
                place = f"{table.name} ({first.name} {damaged[0]}, {second.name} {damaged[1]})"
                raise StoreError(
                    f"{self._database.name}: a row of {place} is not what was written: {DAMAGED}"
                )
            known += len(rows)
            if counted is not None and rows[-1][counted] != known - 1:
                raise StoreError(f"{self._database.name}: rows of {table.name} are missing: {MISSING}")
            yield rows


_MAKERS: dict[sa.TableClause, Any] = {
    RESULTS: results_from,
    SPANS: spans_from,
    LOGGED: logged_from,
    PROOFS: proofs_from,
}
