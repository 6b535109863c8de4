"""How the facts of an older store are numbered: in the order in which they are replayed, then the rest.

The tables of facts are made anew, so that every one begins with the plan and the number. This is part of a
migration: it names what the tables were and what they became then, whatever they are today.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection

from hippotune.store.check_values import Row, check_value, is_damaged

_WHOLE, _TEXT, _REAL = "BIGINT NOT NULL", "TEXT NOT NULL", "DOUBLE PRECISION NOT NULL"
_PLAN = f"plan {_WHOLE}, number {_WHOLE}"
_CHECK = "check_value BIGINT"
_MANY = 10_000
_Create = Callable[[Connection, str, str, str], None]


class _Table(NamedTuple):
    """A table: what its rows were ordered by, its columns before, and as they are now defined, and its key.

    A number takes the place of an `ordinal` that only counted rows.
    """

    name: str
    by: str
    before: tuple[str, ...]
    columns: str
    key: str
    added: int = 0

    def renumbered(self, row: Row, number: int) -> Row:
        """Return a row, of which the last value is its check value, with its number in the second place."""
        plan, *values, check = row
        kept = values[1:] if self.by == "ordinal" and self.name != "results" else values
        new = (plan, number, *kept, *[None] * self.added)
        return (*new, check if check is None or is_damaged(row) else check_value(new))


_TABLES = (
    _Table(
        "nodes",
        "node",
        ("plan", "node", "parent", "start", "config", "salt"),
        f"{_PLAN}, node {_WHOLE}, parent BIGINT, start {_WHOLE}, config {_WHOLE}, salt {_TEXT}, {_CHECK}",
        "plan, node",
    ),
    _Table(
        "results",
        "ordinal",
        ("plan", "ordinal", "node", "step", "metrics", "error", "kind"),
        f"{_PLAN}, ordinal {_WHOLE}, node {_WHOLE}, step {_WHOLE}, metrics TEXT, error TEXT, kind TEXT, "
        f"time DOUBLE PRECISION, {_CHECK}",
        "plan, ordinal",
        added=1,
    ),
    _Table(
        "proofs",
        "ordinal",
        ("plan", "ordinal", "kind", "node", "step", "body"),
        f"{_PLAN}, kind {_TEXT}, node {_WHOLE}, step {_WHOLE}, body {_TEXT}, {_CHECK}",
        "plan, number",
    ),
    _Table(
        "requests",
        "ordinal",
        ("plan", "ordinal", "study", "trial", "config", "step"),
        f"{_PLAN}, study {_TEXT}, trial {_WHOLE}, config {_WHOLE}, step {_WHOLE}, {_CHECK}",
        "plan, study, trial, step, config",
    ),
    _Table(
        "spans",
        "ordinal",
        (
            *("plan", "ordinal", "worker", "lease", "node", "kind"),
            *("first_step", "last_step", "began", "ended", "width", "seconds"),
        ),
        f"{_PLAN}, worker {_WHOLE}, lease {_WHOLE}, node {_WHOLE}, kind {_TEXT}, first_step {_WHOLE}, "
        f"last_step {_WHOLE}, began {_REAL}, ended {_REAL}, width {_REAL}, "
        f"seconds DOUBLE PRECISION, {_CHECK}",
        "plan, number",
    ),
    _Table(
        "logged",
        "ordinal",
        ("plan", "ordinal", "node", "first_step", "last_step", "steps", "numbers"),
        f"{_PLAN}, node {_WHOLE}, first_step {_WHOLE}, last_step {_WHOLE}, steps TEXT, numbers {_TEXT}, "
        f"time DOUBLE PRECISION, {_CHECK}",
        "plan, number",
        added=1,
    ),
)
_BODIES = f"{_PLAN}, body {_TEXT}, {_CHECK}"


def number_facts(connection: Connection, create: _Create) -> None:
    """Number all facts that there are, and give every plan's log an id."""
    last: Counter[int] = Counter()
    connection.exec_driver_sql("ALTER TABLE hippo_plans ADD COLUMN incarnation TEXT")
    for (plan,) in connection.exec_driver_sql("SELECT id FROM hippo_plans").fetchall():
        values = f"SET incarnation = '{secrets.token_hex(8)}' WHERE id = {plan}"
        connection.exec_driver_sql(f"UPDATE hippo_plans {values}")
    create(connection, "kept", _BODIES, "plan, number")
    create(connection, "actions", _BODIES, "plan, number")
    for table in _TABLES:
        _make_anew(connection, table, last, create)
        if table.name == "nodes":  # checkpoints come next
            _insert(connection, "kept", _kept(connection, last))
    for name in ("nodes", "results", "requests"):
        connection.exec_driver_sql(f"CREATE INDEX hippo_{name}_by_number ON hippo_{name} (plan, number)")
    connection.exec_driver_sql("CREATE INDEX hippo_logged_by_node ON hippo_logged (plan, node, number)")


def _make_anew(connection: Connection, table: _Table, last: Counter[int], create: _Create) -> None:
    new, old = f"hippo_{table.name}", f"hippo_old_{table.name}"
    if table.name == "logged":
        connection.exec_driver_sql("DROP INDEX hippo_logged_by_node")
    connection.exec_driver_sql(f"ALTER TABLE {new} RENAME TO {old}")
    create(connection, table.name, table.columns, table.key)
    columns = ", ".join((*table.before, "check_value"))
    rows = _rows(connection, f"SELECT {columns} FROM {old} ORDER BY plan, {table.by}")
    _insert(connection, table.name, (table.renumbered(row, _next(last, row[0])) for row in rows))
    connection.exec_driver_sql(f"DROP TABLE {old}")


def _kept(connection: Connection, last: Counter[int]) -> Iterator[Row]:
    """Yield the checkpoints that there are as facts."""
    columns = "plan, node, step, name, bytes, checksum, platform, interim"
    order = "ORDER BY plan, node, step"
    for plan, node, step, *values in _rows(connection, f"SELECT {columns} FROM hippo_checkpoints {order}"):
        name, size, checksum, platform, interim = values
        checkpoint = {"name": name, "bytes": size, "checksum": checksum}
        checkpoint |= {"platform": platform or "", "interim": bool(interim)}
        body = {"fact": "CheckpointKept", "position": [node, step], "checkpoint": checkpoint}
        row = (plan, _next(last, plan), json.dumps(body))
        yield (*row, check_value(row))


def _next(last: Counter[int], plan: int) -> int:
    last[plan] += 1
    return last[plan]


def _rows(connection: Connection, query: str) -> Iterator[Any]:
    cursor = connection.exec_driver_sql(query)
    while rows := cursor.fetchmany(_MANY):
        yield from map(tuple, rows)


def _insert(connection: Connection, name: str, rows: Iterable[Row]) -> None:
    batch: list[Row] = []
    place = "?" if connection.dialect.name == "sqlite" else "%s"
    for row in rows:
        batch.append(row)
        if len(batch) == _MANY:
            _insert_all(connection, name, place, batch)
            batch = []
    _insert_all(connection, name, place, batch)


def _insert_all(connection: Connection, name: str, place: str, rows: list[Row]) -> None:
    if rows:
        values = ", ".join([place] * len(rows[0]))
        connection.exec_driver_sql(f"INSERT INTO hippo_{name} VALUES ({values})", rows)
