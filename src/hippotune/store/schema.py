"""The tables of a store, and how a store of an older version becomes one of this version.

Every row belongs to a plan and is found by it first. A fact is one row, of the table of its kind, and all
facts of a plan are numbered together: their rows are its log, each fact written once. Only a checkpoint has
two: a fact in the log, and the row of what is there now, which goes when it is dropped. Configs and the
sequences in them are stored once, as JSON, and numbered; metrics are JSON too, and so are the numbers that
training logs, many steps to a row.
Nothing refers to a row that a later transaction could add.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    inspect,
    select,
)

from hippotune.errors import StoreError

Migration = Callable[[Connection], None]

FIRST = 12
"""The first version of the tables. Lower ones were written before the first release, and are refused."""


def _check_values_of_plans_and_studies(connection: Connection) -> None:
    for column in ("hippo_plans ADD COLUMN given_up", "hippo_plans ADD COLUMN check_value"):
        connection.exec_driver_sql(f"ALTER TABLE {column} BIGINT")
    connection.exec_driver_sql("ALTER TABLE hippo_studies ADD COLUMN check_value BIGINT")


MIGRATIONS: tuple[Migration, ...] = (_check_values_of_plans_and_studies,)
"""Each makes the next version from the one before. One that has been released is never edited."""

_TABLES = MetaData()


def _whole(*names: str) -> list[Column[Any]]:
    return [Column(name, BigInteger, nullable=False, autoincrement=False) for name in names]


def _texts(*names: str) -> list[Column[Any]]:
    return [Column(name, Text, nullable=False) for name in names]


def _reals(*names: str) -> list[Column[Any]]:
    return [Column(name, Double, nullable=False) for name in names]


def _table(name: str, key: str, *columns: Column[Any] | Index) -> Table:
    """Name a table that, where the database can, is stored in the order of its key."""
    return Table(
        f"hippo_{name}", _TABLES, *columns, PrimaryKeyConstraint(*key.split()), sqlite_with_rowid=False
    )


def _facts(name: str, key: str, *columns: Column[Any] | Index) -> Table:
    """Name a table whose rows are written once, with a check value; columns that are added come last."""
    return _table(name, key, *_whole("plan"), *columns, *_whole("check_value"))


def _by_number(name: str) -> Index:
    return Index(f"hippo_{name}_by_number", "plan", "number")


VERSION = Table("hippo_schema", _TABLES, *_whole("version"))
STORE = _table("store", "id", *_texts("id"))
OPENINGS = _table("openings", "token", *_texts("token"))
PLANS = _table(
    "plans",
    "id",
    *_whole("id"),
    Column("digest", Text, nullable=False, unique=True),
    *_texts("trainer", "version", "settings", "seed"),
    *_reals("made"),
    *(Column("data", Text), Column("threads", BigInteger), Column("origin", Text)),
    *(Column("keyed_by", Text), Column("incarnation", Text)),
    # How many facts of its log were lost and are not missed any more; what begins a plan has a check value.
    *(Column("given_up", BigInteger), Column("check_value", BigInteger)),
)
STUDIES = _table(
    "studies",
    "name plan",
    *(
        *_texts("name"),
        *_whole("plan"),
        *_reals("made", "used"),
        Column("metric", Text),
        Column("mode", Text),
        Column("check_value", BigInteger),
    ),
)
HOLDERS = _table("holders", "plan", *_whole("plan", "session"), *_texts("holder"))
SEQUENCES = _facts("sequences", "plan id", *_whole("id"), *_texts("body"))
CONFIGS = _facts("configs", "plan id", *_whole("id"), *_texts("body"))
NODES = _facts(
    "nodes",
    "plan node",
    *(*_whole("number", "node"), Column("parent", BigInteger), *_whole("start", "config"), *_texts("salt")),
    _by_number("nodes"),
)
CHECKPOINTS = _table(
    "checkpoints",
    "plan node step",
    *(*_whole("plan", "node", "step"), *_texts("name"), *_whole("bytes"), *_texts("checksum")),
    *(Column("keyed_check", Text), Column("platform", Text), Column("interim", BigInteger)),
)
RESULTS = _facts(
    "results",
    "plan ordinal",
    *_whole("number", "ordinal", "node", "step"),
    *(Column("metrics", Text), Column("error", Text), Column("kind", Text), Column("time", Double)),
    _by_number("results"),
)
REQUESTS = _facts(
    "requests",
    "plan study trial step config",
    *(*_whole("number"), *_texts("study"), *_whole("trial", "config", "step")),
    _by_number("requests"),
)
SPANS = _facts(
    "spans",
    "plan number",
    *(*_whole("number", "worker", "lease", "node"), *_texts("kind"), *_whole("first_step", "last_step")),
    *(*_reals("began", "ended", "width"), Column("seconds", Double)),
)
LOGGED = _facts(
    "logged",
    "plan number",
    *(*_whole("number", "node", "first_step", "last_step"), Column("steps", Text), *_texts("numbers")),
    *(Column("time", Double), Index("hippo_logged_by_node", "plan", "node", "number")),
)
PROOFS = _facts(
    "proofs",
    "plan number",
    *(*_whole("number"), *_texts("kind"), *_whole("node", "step"), *_texts("body")),
)
KEPT = _facts("kept", "plan number", *_whole("number"), *_texts("body"))
ACTIONS = _facts("actions", "plan number", *_whole("number"), *_texts("body"))
LOG = (NODES, KEPT, RESULTS, PROOFS, REQUESTS, SPANS, LOGGED, ACTIONS)
"""The tables whose rows are the facts of a plan. `KEPT` has checkpoints kept and dropped, as JSON."""
OF_A_PLAN = (STUDIES, HOLDERS, SEQUENCES, CONFIGS, CHECKPOINTS, *LOG)
"""All tables whose rows belong to a plan."""
FACTS = (SEQUENCES, CONFIGS, *LOG)
"""The tables whose rows are written once, each with a check value."""


def begin_log_anew(connection: Connection, *where: ColumnElement[bool]) -> None:
    """Give the logs of plans new ids: places that readers have noted are not valid any more."""
    for plan in connection.execute(select(PLANS.c.id).where(*where)).scalars().all():
        new = {"incarnation": secrets.token_hex(8)}
        connection.execute(PLANS.update().where(PLANS.c.id == plan).values(**new))


def stored_version(connection: Connection) -> int:
    """Return the version of the tables in a database; 0 where there are none."""
    if not inspect(connection).has_table(VERSION.name):
        return 0
    return int(connection.execute(select(VERSION.c.version)).scalar_one())


def migrate(connection: Connection, name: str, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring a database up to date, inside an exclusive transaction."""
    found, newest = stored_version(connection), FIRST + len(migrations)
    if found > newest:
        raise StoreError(
            f"{name} was written by a newer Hippo: its schema is version {found}, and this one knows "
            f"versions up to {newest}; upgrade Hippo, or choose another home"
        )
    if 0 < found < FIRST:
        raise StoreError(
            f"{name} was written before Hippo's first release: its schema is version {found}, and the "
            f"oldest that this one reads is {FIRST}; choose another home"
        )
    if found == 0:
        found = newest
        _TABLES.create_all(connection, checkfirst=False)
        connection.execute(STORE.insert().values(id=secrets.token_hex(8)))
        connection.execute(VERSION.insert().values(version=newest))
    for migration in migrations[found - FIRST :]:
        migration(connection)
    connection.execute(VERSION.update().values(version=newest))
