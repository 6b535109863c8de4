"""Whether a store and its checkpoints are what was written, and what can be done where they are not.

Looking changes nothing and disturbs no study. Repairing holds the lock of the plan concerned, and removes
only what is damaged: it is then trained or measured again where it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

import sqlalchemy as sa

from hippotune.errors import CheckpointError, StoreError
from hippotune.plan.facts import CheckpointDropped, CheckpointKept
from hippotune.short import plural
from hippotune.store.catalog import Catalog, PlanInfo, seal_studies
from hippotune.store.check_values import is_changed, is_damaged
from hippotune.store.lock import PlanInUse
from hippotune.store.schema import (
    CHECKPOINTS,
    CONFIGS,
    FACTS,
    LOG,
    NODES,
    OF_A_PLAN,
    PLANS,
    SEQUENCES,
    STUDIES,
    begin_log_anew,
)
from hippotune.store.secret import KeyOfAnother, LostKey
from hippotune.store.sql import SqlStore
from hippotune.store.storage import CheckpointStorage

_TREE = (SEQUENCES, CONFIGS, NODES)
_LOST = "what was trained with it is lost with it"
_BACKUP = "put a backup of the database back"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that differs from what was written; `remedy` is what was done about it, or what to do.

    A plan that is in use cannot be repaired, which is no problem of its own.
    """

    what: str
    remedy: str
    is_repaired: bool = False
    is_problem: bool = True

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


class Examination:
    """Examines all plans of a store, and with `repair` removes what is damaged."""

    def __init__(self, catalog: Catalog, repair: bool) -> None:
        self._catalog = catalog
        self._database = catalog.database
        self._repair = repair
        self.facts = 0
        self.checkpoints = 0

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong, one thing after the other."""
        broken = self._file_errors()
        yield from broken
        if broken:
            return
        yield from self._rows_without_plan()
        yield from self._studies()
        for info in self._catalog.plans():
            yield from self._plan(info)

    def _file_errors(self) -> list[Finding]:
        """Let the database look at its file itself."""
        if not self._database.is_sqlite:
            return []
        with self._database.reading() as connection:
            found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        remedy = f"{_BACKUP}, or save what can be read with the .recover command of the program sqlite3"
        return [] if found == ["ok"] else [Finding(f"{self._database.name}: {found[0]}", remedy)]

    def _rows_without_plan(self) -> Iterator[Finding]:
        for table in OF_A_PLAN:
            orphans = table.c.plan.not_in(sa.select(PLANS.c.id))
            with self._database.reading() as connection:
                count = connection.execute(
                    sa.select(sa.func.count()).select_from(table).where(orphans)
                ).scalar_one()
            if count:
                what = f"{count} rows of {table.name} belong to no plan"
                if self._repair:
                    with self._database.changing() as connection:
                        connection.execute(sa.delete(table).where(orphans))
                yield self._finding(what)

    def _studies(self) -> Iterator[Finding]:
        """Look at what is known of studies: it is told again when they are next run."""
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(*STUDIES.c)).all()
        for row in rows:
            if not is_changed(tuple(row)):
                continue
            what = f"what is known of study {row.name!r} is not what was written"
            if not self._repair:
                yield Finding(
                    what, "hippo doctor --repair forgets what it was tuned for, until it is run again"
                )
                continue
            this = (STUDIES.c.name == row.name, STUDIES.c.plan == row.plan)
            with self._database.changing() as connection:
                connection.execute(sa.update(STUDIES).where(*this).values(metric=None, mode=None))
                seal_studies(connection, *this)
            yield Finding(what, "what it was tuned for is forgotten until it is run again", is_repaired=True)

    def _finding(self, what: str) -> Finding:
        if self._repair:
            return Finding(what, "removed", is_repaired=True)
        return Finding(what, "hippo doctor --repair removes it")

    # One plan.

    def _plan(self, info: PlanInfo) -> Iterator[Finding]:
        name = f"the plan {info.key.digest} of {info.key.trainer}"
        if info.digest != info.key.digest:
            yield Finding(f"{name}: what it is known by ({info.digest}) was changed", _BACKUP)
            return
        try:
            with closing(
                self._catalog.plan(info.key) if self._repair else self._catalog.view(info.key)
            ) as store:
                self._catalog.origin(info.key)
                for look in (self._rows_of, self._missing_of, self._gaps_of, self._checkpoints_of):
                    trouble = list(look(store, name))
                    yield from trouble
                    if not all(finding.is_repaired for finding in trouble):
                        break
        except PlanInUse as error:
            yield Finding("not examined", str(error), is_problem=False)
        except StoreError as error:
            yield Finding(name, str(error))

    def _missing_of(self, store: SqlStore, name: str) -> Iterator[Finding]:
        """Look for rows of the tree that are gone: they are counted, and others name them."""
        for table, own, foreign in (
            (SEQUENCES, "id", ""),
            (CONFIGS, "id", "config"),
            (NODES, "node", "node"),
        ):
            naming = [each for each in (*FACTS, CHECKPOINTS) if foreign in each.c]
            ends = [(table, own), *((each, foreign) for each in naming)]
            with self._database.reading() as connection:

                def asked(found: sa.ColumnElement[int], where: sa.TableClause) -> int:
                    query = sa.select(found).where(where.c.plan == store.number)
                    return connection.execute(query).scalar_one()

                count = asked(sa.func.count(), table)
                last = max(asked(sa.func.coalesce(sa.func.max(each.c[by]), -1), each) for each, by in ends)
            if missing := last + 1 - count:
                rows = f"{plural(missing, 'row')} of {table.name}"
                yield Finding(f"{name}: {rows} missing", f"{_LOST}: {_BACKUP}")

    def _gaps_of(self, store: SqlStore, name: str) -> Iterator[Finding]:
        """Look for facts that are gone: all facts of a plan are numbered together, without gaps."""
        mine = PLANS.c.id == store.number
        count, last = 0, 0
        with self._database.reading() as connection:
            for table in LOG:
                found = sa.select(sa.func.count(), sa.func.coalesce(sa.func.max(table.c.number), 0))
                row = connection.execute(found.where(table.c.plan == store.number)).one()
                count, last = count + row[0], max(last, row[1])
            given_up = connection.execute(sa.select(PLANS.c.given_up).where(mine)).scalar_one() or 0
        if (missing := last - count - given_up) <= 0:
            return
        what = f"{name}: {plural(missing, 'fact')} missing"
        if self._repair:
            with self._database.changing() as connection:
                self._give_up(connection, store.number, missing)
            yield Finding(what, "given up: it is trained or measured again where it is needed", True)
        else:
            again = "it is trained or measured again where it is needed"
            yield Finding(what, f"{_BACKUP}, or give it up with hippo doctor --repair: {again}")

    def _give_up(self, connection: sa.Connection, plan: int, count: int) -> None:
        """Do not miss that many facts of a plan any more."""
        known = sa.func.coalesce(PLANS.c.given_up, 0)
        connection.execute(sa.update(PLANS).where(PLANS.c.id == plan).values(given_up=known + count))

    def _rows_of(self, store: SqlStore, name: str) -> Iterator[Finding]:
        for table in FACTS:
            query = sa.select(*table.c).where(table.c.plan == store.number)
            with self._database.reading() as connection:
                damaged = []
                for row in connection.execute(query):
                    self.facts += 1
                    if is_damaged(tuple(row)):
                        damaged.append(row)
            for row in damaged:
                what = f"{name}: a row of {table.name} is not what was written ({_shown(row)})"
                if table in _TREE:
                    yield Finding(what, f"{_LOST}: {_BACKUP}")
                    continue
                if self._repair:
                    this = [table.c[name] == row._mapping[name] for name in ("plan", "number", "check_value")]
                    with self._database.changing() as connection:
                        connection.execute(sa.delete(table).where(*this))
                        self._give_up(connection, store.number, 1)
                        begin_log_anew(connection, PLANS.c.id == store.number)
                yield self._finding(what)

    def _checkpoints_of(self, store: SqlStore, name: str) -> Iterator[Finding]:
        files = self._catalog.checkpoints(store.key)
        try:
            store.claim(files, look_only=True)
            with suppress(KeyOfAnother):  # who may only look compares digests
                self._catalog.check_key(store.number)
            accepted, refused = store.sorted_checkpoints()
        except LostKey as error:
            if not self._repair:
                yield Finding(name, str(error))
                return
            count = store.give_up_checkpoints(files)
            yield Finding(f"{name}: the key of {count} checkpoints is lost", "they were given up", True)
            return
        for kept in refused:
            what = f"{name}: a checkpoint at {_place(kept)} that this plan's own workers did not write"
            yield self._dropped(store, files, kept, what)
        for kept in accepted:
            self.checkpoints += 1
            try:
                files.verify(kept.checkpoint)
            except CheckpointError as error:
                if self._repair or kept in store.checkpoints():  # or dropped meanwhile, by a study that runs
                    yield self._dropped(store, files, kept, f"{name}, {_place(kept)}: {error}")

    def _dropped(self, store: SqlStore, files: CheckpointStorage, kept: CheckpointKept, what: str) -> Finding:
        if not self._repair:
            return Finding(what, "it is trained again where it is needed; hippo doctor --repair forgets it")
        store.write([CheckpointDropped(kept.position)])
        files.delete(kept.checkpoint)
        return Finding(what, "forgotten: it is trained again where it is needed", is_repaired=True)


def _place(kept: CheckpointKept) -> str:
    return f"node {kept.position.node}, step {kept.position.step}"


def _shown(row: sa.Row[tuple[object, ...]]) -> str:
    text = ", ".join(f"{name} {value}" for name, value in row._mapping.items() if value is not None)
    return text if len(text) <= 200 else f"{text[:200]}…"
