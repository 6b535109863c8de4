"""All plans of a store, and which study uses which.

`open_store` is the way in, for studies (which make what is missing) and for commands that only look.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

import sqlalchemy as sa

from hippotune.errors import InvalidInput, StoreError
from hippotune.identity.key import Origin, PlanKey
from hippotune.store.check_values import DAMAGED, check_value, is_changed
from hippotune.store.claim import Mark, is_own
from hippotune.store.database import Database
from hippotune.store.homes import checkpoints_of, storage_of
from hippotune.store.lock import FileLock, PlanInUse, PlanLock
from hippotune.store.rows import storable
from hippotune.store.schema import (
    CHECKPOINTS,
    FIRST,
    MIGRATIONS,
    OF_A_PLAN,
    PLANS,
    STUDIES,
    migrate,
    stored_version,
)
from hippotune.store.secret import LostKey, Secret
from hippotune.store.session_lock import SessionLock
from hippotune.store.sql import SqlStore
from hippotune.store.storage import CheckpointStorage, StorageHome
from hippotune.store.totals import PlanTotals, read_totals

FILE_NAME = "plans.sqlite"


def open_store(home: Path, url: str | None = None, *, create: bool = True) -> Catalog:
    """Open the store below `home`, or the PostgreSQL database behind `url`.

    With ``create=False`` a store that does not exist is an error, and nothing is made.
    """
    if url is None and not create and not (home / FILE_NAME).is_file():
        if (home / "checkpoints").is_dir():
            raise StoreError(
                f"there is no database in {home}, but there are checkpoints: put a backup of {FILE_NAME} "
                "back, or name its URL with --store"
            )
        raise StoreError(
            f"there is no store in {home}: no study has been run with that home. Give the home of your "
            "study: --home FOLDER, or Study(home=...)"
        )
    database = Database.at(home / FILE_NAME) if url is None else Database.by(url)
    try:
        with database.reading() as connection:
            found = stored_version(connection)
        if found == 0 and not create:
            raise StoreError(f"{database.name} holds no plans yet: no study has been run with it")
        if found != FIRST + len(MIGRATIONS):
            with database.changing() as connection:
                migrate(connection, database.name)
    except BaseException:
        database.close()
        raise
    return Catalog(database, home)


@dataclass(frozen=True)
class PlanInfo:
    """A plan that the store holds. Times are seconds since the epoch.

    `digest` is the one that it is found by: that of its key, unless the database is damaged.
    """

    key: PlanKey
    made: float
    digest: str


@dataclass(frozen=True)
class StudyInfo:
    """A study on a plan: when it first and when it last used it. Times are seconds since the epoch.

    `metric` and `mode` are what it was last tuned for, where that is known.
    """

    name: str
    key: PlanKey
    made: float
    used: float
    metric: str | None = None
    mode: str | None = None


class Catalog:
    """An open store. Stores of single plans that came from it end with it."""

    def __init__(self, database: Database, home: Path) -> None:
        self.database = database
        self._home = home

    def checkpoints(self, key: PlanKey) -> CheckpointStorage:
        """Return the checkpoints of a plan."""
        return checkpoints_of(self._home, key.digest)

    @property
    def storage(self) -> StorageHome:
        """All plans' checkpoints."""
        return storage_of(self._home)

    def plan(self, key: PlanKey) -> SqlStore:
        """Open a plan for writing, making it where it is new. Raises `StoreError` where it is in use."""
        with self.database.changing() as connection:
            plan = _find_or_add(connection, key)
        name = f"the plan {key.digest} of {key.trainer}"
        connection = self.database.connect()
        try:
            with self.database.errors():
                lock: PlanLock = (
                    FileLock(self._home / "locks" / f"{key.digest}.lock", name)
                    if self.database.is_sqlite
                    else SessionLock(connection, plan, name)
                )
        except BaseException:
            connection.invalidate()  # a session that goes back to the pool would keep its locks
            connection.close()
            raise
        return SqlStore(self.database, plan, key, partial(self._open_secret, plan), connection, lock)

    def _open_secret(self, plan: int) -> Secret:
        """Open the key that a plan's checkpoints are checked by, for saving more of them.

        A new one is made only where nothing was kept with another one.
        """
        keyed_by = self.check_key(plan)
        secret = Secret.of(self._home)
        if keyed_by != secret.fingerprint:
            with self.database.changing() as connection:
                this = PLANS.c.id == plan
                connection.execute(sa.update(PLANS).where(this).values(keyed_by=secret.fingerprint))
        return secret

    def check_key(self, plan: int) -> str | None:
        """Return what the key of a plan's checkpoints is known by. `StoreError` where it cannot be used."""
        kept = sa.select(sa.func.count(CHECKPOINTS.c.keyed_check)).where(CHECKPOINTS.c.plan == plan)
        with self.database.reading() as connection:
            query = sa.select(PLANS.c.digest, PLANS.c.keyed_by).where(PLANS.c.id == plan)
            digest, keyed_by = connection.execute(query).one()
            count: int = connection.execute(kept).scalar_one()
        secret = Secret.existing(self._home)
        if count and (secret is None or keyed_by not in (None, secret.fingerprint)):
            raise LostKey(digest, count, self._home, missing=secret is None)
        return None if keyed_by is None else str(keyed_by)

    def view(self, key: PlanKey) -> SqlStore:
        """Open a plan for reading; others may write to it meanwhile."""
        with self.database.reading() as connection:
            plan = connection.execute(sa.select(PLANS.c.id).where(PLANS.c.digest == key.digest)).scalar()
        if plan is None:
            known = ", ".join(f"{info.key.digest} of {info.key.trainer}" for info in self.plans()) or "none"
            raise StoreError(
                f"{self.database.name} has no plan {key.digest} of {key.trainer}; its plans are {known}"
            )
        return SqlStore(self.database, plan, key, partial(Secret.found, self._home))

    def plans(self) -> list[PlanInfo]:
        """Return all plans, in the order in which they were made."""
        query = sa.select(*_KEY_COLUMNS, PLANS.c.made, PLANS.c.digest).order_by(PLANS.c.id)
        with self.database.reading() as connection:
            return [PlanInfo(_key(row), row.made, row.digest) for row in connection.execute(query)]

    def studies(self) -> list[StudyInfo]:
        """Return all studies with their plans, the last used first; a study may have had several."""
        with self.database.reading() as connection:
            return _studies(connection)

    def totals(self) -> dict[PlanKey, PlanTotals]:
        """Return how much each plan holds."""
        query = sa.select(PLANS.c.id, *_KEY_COLUMNS)
        with self.database.reading() as connection:
            totals = read_totals(connection)
            return {_key(row): totals.get(row.id, PlanTotals()) for row in connection.execute(query)}

    def origin(self, key: PlanKey) -> Origin | None:
        """Return what a plan was begun with; None where there is no such plan, or where it is not known."""
        query = sa.select(*_BEGINNING).where(PLANS.c.digest == key.digest)
        with self.database.reading() as connection:
            row = connection.execute(query).first()
        try:
            if row is not None and is_changed(tuple(row)):
                raise ValueError("its check value is another one")
            return None if row is None or row.origin is None else Origin.from_json(row.origin)
        except (ValueError, TypeError, KeyError) as error:
            what = f"{self.database.name}: what the plan {key.digest} was begun with is not what was written"
            raise StoreError(f"{what}: put a backup back") from error

    def bind(self, study: str, key: PlanKey, origin: Origin | None = None) -> PlanKey | None:
        """Note that a study uses a plan now. Returns the plan that it used before, where that was another.

        A plan of which that is not known yet was begun with `origin`.
        """
        if not study or storable(study) != study:
            raise InvalidInput(f"study name is {study!r}; expected text without NUL and surrogate characters")
        mine = STUDIES.c.name == study
        with self.database.changing() as connection:
            _check_studies(connection, mine)
            plan = _find_or_add(connection, key)
            if origin is not None:
                unknown = (PLANS.c.id == plan, PLANS.c.origin.is_(None))
                text = storable(origin.to_json())
                connection.execute(sa.update(PLANS).where(*unknown).values(origin=text))
                seal_plan(connection, plan)
            query = (
                sa.select(*_KEY_COLUMNS, STUDIES.c.used)
                .join_from(STUDIES, PLANS, STUDIES.c.plan == PLANS.c.id)
                .where(mine)
                .order_by(STUDIES.c.used.desc())
            )
            last = connection.execute(query).first()
            # The plan in use is the one used last, even where clocks have been set back.
            now = time.time() if last is None else max(time.time(), last.used + 1e-3)
            known = connection.execute(
                sa.update(STUDIES).where(mine, STUDIES.c.plan == plan).values(used=now)
            ).rowcount
            if not known:
                connection.execute(sa.insert(STUDIES).values(name=study, plan=plan, made=now, used=now))
            seal_studies(connection, mine, STUDIES.c.plan == plan)
        previous = None if last is None else _key(last)
        return None if previous == key else previous

    def aim(self, study: str, key: PlanKey, metric: str, mode: str) -> None:
        """Note what a study that uses a plan is tuned for."""
        with self.database.changing() as connection:
            mine = (STUDIES.c.name == study, STUDIES.c.plan == _find_or_add(connection, key))
            connection.execute(sa.update(STUDIES).where(*mine).values(metric=storable(metric), mode=mode))
            seal_studies(connection, *mine)

    def unused(self) -> list[PlanInfo]:
        """Return the plans that no study uses any more: all that did have another one by now."""
        used = {info.key for info in latest(self.studies())}
        return [info for info in self.plans() if info.key not in used]

    def remove(self, key: PlanKey) -> None:
        """Forget all that is known of a plan that no study uses any more, but not its checkpoint files.

        Raises `PlanInUse` where it is in use after all.
        """
        with closing(self.plan(key)), self.database.changing() as connection:
            users = [info.name for info in latest(_studies(connection)) if info.key == key]
            if users:
                raise PlanInUse(f"the plan {key.digest} of {key.trainer} is used by study {users[0]!r}")
            plan = _find_or_add(connection, key)
            for table in OF_A_PLAN:
                connection.execute(sa.delete(table).where(table.c.plan == plan))
            connection.execute(sa.delete(PLANS).where(PLANS.c.id == plan))

    @contextmanager
    def without_plan(self, digest: str, files: CheckpointStorage) -> Iterator[bool]:
        """Say whether checkpoints are what is left of a plan that was removed from this store.

        Inside the block no plan begins, so that nothing is saved there meanwhile.
        """
        with self.database.changing() as connection:
            plan = connection.execute(sa.select(PLANS.c.id).where(PLANS.c.digest == digest)).scalar()
            mark = None if plan is not None else Mark.of(files)
            yield mark is not None and is_own(connection, mark)

    def close(self) -> None:
        """Close the store. May be called twice."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_KEY_COLUMNS = (
    PLANS.c.trainer,
    PLANS.c.version,
    PLANS.c.settings,
    PLANS.c.seed,
    PLANS.c.data,
    PLANS.c.threads,
)


def _key(row: Any) -> PlanKey:
    return PlanKey(row.trainer, row.version, row.settings, int(row.seed), row.data or "", row.threads)


def latest(studies: list[StudyInfo]) -> list[StudyInfo]:
    """Return each study with the plan that it used last, from studies of which the last used come first."""
    found: dict[str, StudyInfo] = {}
    for info in studies:
        found.setdefault(info.name, info)
    return list(found.values())


def _studies(connection: sa.Connection) -> list[StudyInfo]:
    _check_studies(connection)
    columns = [STUDIES.c[name] for name in ("name", "made", "used", "metric", "mode")]
    query = (
        sa.select(*_KEY_COLUMNS, *columns)
        .join_from(STUDIES, PLANS, STUDIES.c.plan == PLANS.c.id)
        .order_by(STUDIES.c.used.desc(), STUDIES.c.name)
    )
    return [
        StudyInfo(row.name, _key(row), row.made, row.used, row.metric, row.mode)
        for row in connection.execute(query)
    ]


_BEGINNING = (PLANS.c.id, PLANS.c.digest, PLANS.c.made, PLANS.c.origin, PLANS.c.check_value)


def seal_plan(connection: sa.Connection, plan: int) -> None:
    """Give what a plan was begun with, as it is now, its check value."""
    this = PLANS.c.id == plan
    row = connection.execute(sa.select(*_BEGINNING).where(this)).one()
    connection.execute(sa.update(PLANS).where(this).values(check_value=check_value(tuple(row)[:-1])))


def seal_studies(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> None:
    """Give studies, as they are now, their check values."""
    for row in connection.execute(sa.select(*STUDIES.c).where(*where)).all():
        this = (STUDIES.c.name == row.name, STUDIES.c.plan == row.plan)
        value = check_value(tuple(row)[:-1])
        connection.execute(sa.update(STUDIES).where(*this).values(check_value=value))


def _check_studies(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> None:
    for row in connection.execute(sa.select(*STUDIES.c).where(*where)):
        if is_changed(tuple(row)):
            raise StoreError(f"what is known of study {row.name!r} is not what was written: {DAMAGED}")


def _find_or_add(connection: sa.Connection, key: PlanKey) -> int:
    """Return the number of a plan, inside an exclusive transaction."""
    found: int | None = connection.execute(sa.select(PLANS.c.id).where(PLANS.c.digest == key.digest)).scalar()
    if found is not None:
        return found
    last: int | None = connection.execute(sa.select(sa.func.max(PLANS.c.id))).scalar()
    plan = 1 if last is None else last + 1
    connection.execute(
        sa.insert(PLANS).values(
            id=plan,
            digest=key.digest,
            trainer=key.trainer,
            version=key.version,
            settings=key.settings,
            seed=str(key.seed),
            data=key.data or None,
            threads=key.threads,
            made=time.time(),
            incarnation=token_hex(8),
        )
    )
    seal_plan(connection, plan)
    return plan
