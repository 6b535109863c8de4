"""The tables, and how a store of an older version becomes one of this version.

`MIGRATIONS` is the truth: migration n makes version n from version n - 1, and an empty database is version 0.
A migration that has been released is never edited; what changes is added behind it. The tables below it name
the columns that today's code reads and writes.

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

from sqlalchemy import ColumnElement, Connection, TableClause, column, inspect, select, table

from hippotune.errors import StoreError
from hippotune.store.numbering import number_facts

Migration = Callable[[Connection], None]


def _table(name: str, *columns: str) -> TableClause:
    return table(f"hippo_{name}", *(column(name) for name in columns))


def _facts(name: str, *columns: str) -> TableClause:
    """Name a table whose rows are written once, with a check value; columns that are added come last."""
    return _table(name, *columns, "check_value")


VERSION = _table("schema", "version")
STORE = _table("store", "id")
OPENINGS = _table("openings", "token")
PLANS = _table(
    "plans",
    *("id", "digest", "trainer", "version", "settings", "seed", "made"),
    *("data", "threads", "origin", "keyed_by", "incarnation"),
)
STUDIES = _table("studies", "name", "plan", "made", "used", "metric", "mode")
HOLDERS = _table("holders", "plan", "session", "holder")
SEQUENCES = _facts("sequences", "plan", "id", "body")
CONFIGS = _facts("configs", "plan", "id", "body")
NODES = _facts("nodes", "plan", "number", "node", "parent", "start", "config", "salt")
CHECKPOINTS = _table(
    "checkpoints",
    *("plan", "node", "step", "name", "bytes", "checksum", "keyed_check", "platform", "interim"),
)
RESULTS = _facts("results", "plan", "number", "ordinal", "node", "step", "metrics", "error", "kind", "time")
REQUESTS = _facts("requests", "plan", "number", "study", "trial", "config", "step")
SPANS = _facts(
    "spans",
    *("plan", "number", "worker", "lease", "node", "kind"),
    *("first_step", "last_step", "began", "ended", "width", "seconds"),
)
LOGGED = _facts("logged", "plan", "number", "node", "first_step", "last_step", "steps", "numbers", "time")
PROOFS = _facts("proofs", "plan", "number", "kind", "node", "step", "body")
KEPT = _facts("kept", "plan", "number", "body")
ACTIONS = _facts("actions", "plan", "number", "body")
LOG = (NODES, KEPT, RESULTS, PROOFS, REQUESTS, SPANS, LOGGED, ACTIONS)
"""The tables whose rows are the facts of a plan. `KEPT` has checkpoints kept and dropped, as JSON."""
OF_A_PLAN = (STUDIES, HOLDERS, SEQUENCES, CONFIGS, CHECKPOINTS, *LOG)
"""All tables whose rows belong to a plan."""
FACTS = tuple(table for table in OF_A_PLAN if "check_value" in table.c)
"""The tables whose rows carry a check value."""


def _create(connection: Connection, name: str, columns: str, key: str) -> None:
    """Create a table that, where the database can, is stored in the order of its key."""
    ordered = " WITHOUT ROWID" if connection.dialect.name == "sqlite" else ""
    connection.exec_driver_sql(f"CREATE TABLE hippo_{name} ({columns}, PRIMARY KEY ({key})){ordered}")


def _version_1(connection: Connection) -> None:
    text, whole, real = "TEXT NOT NULL", "BIGINT NOT NULL", "DOUBLE PRECISION NOT NULL"
    plan = f"plan {whole}"
    for name, columns, key in (
        (
            "plans",
            f"id {whole}, digest {text} UNIQUE, trainer {text}, version {text}, settings {text}, "
            f"seed {text}, made {real}",
            "id",
        ),
        ("studies", f"name {text}, {plan}, made {real}, used {real}", "name, plan"),
        ("holders", f"{plan}, session {whole}, holder {text}", "plan"),
        ("sequences", f"{plan}, id {whole}, body {text}", "plan, id"),
        ("configs", f"{plan}, id {whole}, body {text}", "plan, id"),
        (
            "nodes",
            f"{plan}, node {whole}, parent BIGINT, start {whole}, config {whole}, salt {text}",
            "plan, node",
        ),
        (
            "checkpoints",
            f"{plan}, node {whole}, step {whole}, name {text}, bytes {whole}, checksum {text}",
            "plan, node, step",
        ),
        (
            "results",
            f"{plan}, ordinal {whole}, node {whole}, step {whole}, metrics TEXT, error TEXT",
            "plan, ordinal",
        ),
        (
            "requests",
            f"{plan}, ordinal {whole}, study {text}, trial {whole}, config {whole}, step {whole}",
            "plan, study, trial, step, config",
        ),
        (
            "spans",
            f"{plan}, ordinal {whole}, worker {whole}, lease {whole}, node {whole}, kind {text}, "
            f"first_step {whole}, last_step {whole}, began {real}, ended {real}, width {real}",
            "plan, ordinal",
        ),
    ):
        _create(connection, name, columns, key)


def _version_2(connection: Connection) -> None:
    """Let studies say what they are after."""
    for name in ("metric", "mode"):
        connection.exec_driver_sql(f"ALTER TABLE hippo_studies ADD COLUMN {name} TEXT")


def _version_3(connection: Connection) -> None:
    """Let checkpoints carry a keyed check; those that were kept before have none."""
    connection.exec_driver_sql("ALTER TABLE hippo_checkpoints ADD COLUMN keyed_check TEXT")


def _version_4(connection: Connection) -> None:
    """Let plans say which data and threads they are found by, and, as JSON, what they were begun with."""
    for column_and_type in ("data TEXT", "threads BIGINT", "origin TEXT"):
        connection.exec_driver_sql(f"ALTER TABLE hippo_plans ADD COLUMN {column_and_type}")


def _version_5(connection: Connection) -> None:
    """Let spans say what their steps alone took."""
    connection.exec_driver_sql("ALTER TABLE hippo_spans ADD COLUMN seconds DOUBLE PRECISION")


def _version_6(connection: Connection) -> None:
    """Keep what training logs. `steps` is for rows that do not have every step from the first to the last."""
    whole = "BIGINT NOT NULL"
    columns = (
        f"plan {whole}, ordinal {whole}, node {whole}, first_step {whole}, last_step {whole}, "
        "steps TEXT, numbers TEXT NOT NULL"
    )
    _create(connection, "logged", columns, "plan, ordinal")
    connection.exec_driver_sql("CREATE INDEX hippo_logged_by_node ON hippo_logged (plan, node, ordinal)")


def _version_7(connection: Connection) -> None:
    """Let failures be suspended, and cleared: `kind` says so."""
    connection.exec_driver_sql("ALTER TABLE hippo_results ADD COLUMN kind TEXT")


def _version_8(connection: Connection) -> None:
    """Give the store an id and tokens of its openings; let plans say by which key they are checked."""
    connection.exec_driver_sql("CREATE TABLE hippo_store (id TEXT NOT NULL PRIMARY KEY)")
    connection.execute(STORE.insert().values(id=secrets.token_hex(8)))
    connection.exec_driver_sql("CREATE TABLE hippo_openings (token TEXT NOT NULL PRIMARY KEY)")
    connection.exec_driver_sql("ALTER TABLE hippo_plans ADD COLUMN keyed_by TEXT")


def _version_9(connection: Connection) -> None:
    """Let facts carry a check value; those that were written before have none."""
    for name in ("sequences", "configs", "nodes", "results", "requests", "spans", "logged"):
        connection.exec_driver_sql(f"ALTER TABLE hippo_{name} ADD COLUMN check_value BIGINT")


def _version_10(connection: Connection) -> None:
    """Keep what was proved of a trainer, and states that are still to be compared."""
    whole, text = "BIGINT NOT NULL", "TEXT NOT NULL"
    columns = (
        f"plan {whole}, ordinal {whole}, kind {text}, node {whole}, step {whole}, body {text}, "
        "check_value BIGINT"
    )
    _create(connection, "proofs", columns, "plan, ordinal")


def _version_11(connection: Connection) -> None:
    """Let checkpoints say on which platform they were trained, and whether they are interim."""
    connection.exec_driver_sql("ALTER TABLE hippo_checkpoints ADD COLUMN platform TEXT")
    connection.exec_driver_sql("ALTER TABLE hippo_checkpoints ADD COLUMN interim BIGINT")


def _version_12(connection: Connection) -> None:
    """Number all facts of a plan together, and keep those too that had no row of their own."""
    number_facts(connection, _create)


MIGRATIONS: tuple[Migration, ...] = (
    _version_1,
    _version_2,
    _version_3,
    _version_4,
    _version_5,
    _version_6,
    _version_7,
    _version_8,
    _version_9,
    _version_10,
    _version_11,
    _version_12,
)


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
    found = stored_version(connection)
    if found > len(migrations):
        raise StoreError(
            f"{name} was written by a newer Hippo: its schema is version {found}, and this one knows "
            f"versions up to {len(migrations)}; upgrade Hippo, or choose another home"
        )
    if found == len(migrations):
        return
    for migration in migrations[found:]:
        migration(connection)
    if found == 0:
        connection.exec_driver_sql(f"CREATE TABLE {VERSION.name} (version BIGINT NOT NULL)")
        connection.execute(VERSION.insert().values(version=len(migrations)))
    else:
        connection.execute(VERSION.update().values(version=len(migrations)))
