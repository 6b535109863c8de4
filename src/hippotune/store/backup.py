"""A copy of a store's database in one file, made while studies run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from hippotune.durable import replacing
from hippotune.errors import InvalidInput
from hippotune.store.database import Database
from hippotune.store.files import explained
from hippotune.store.schema import OPENINGS, PLANS

_HEADER = b"SQLite format 3\0"


def back_up(database: Database, target: Path) -> None:
    """Copy the database as it is at one moment; what was there under that name stays until this is whole.

    The copy knows none of the openings: where it is put back, checkpoints that were saved after it was made
    are set aside, and not removed. Its logs get new ids, so that readers of this store notice the change.
    """
    if not database.is_sqlite:
        raise InvalidInput(
            f"{database.name} is on PostgreSQL, which makes copies itself: "
            f"pg_dump --exclude-table-data={OPENINGS.name} --file={target} URL"
        )
    if target.is_dir() or (target.exists() and not _is_backup(target)):
        raise InvalidInput(
            f"{target} is no backup, and is not replaced; expected the name of a file to write"
        )
    if not target.absolute().parent.is_dir():
        raise InvalidInput(f"{target} is in no folder that exists; expected the name of a file to write")
    database_file = database.engine.url.database
    if target.exists() and database_file is not None and target.samefile(database_file):
        raise InvalidInput(f"{target} is the store itself; expected the name of another file")
    with (
        explained(target),
        database.errors(),
        replacing(target) as temporary,
        closing(database.engine.raw_connection()) as source,
        closing(sqlite3.connect(temporary)) as copy,
    ):
        driver = source.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file is all
        copy.execute(f"DELETE FROM {OPENINGS.name}")
        copy.execute(f"UPDATE {PLANS.name} SET incarnation = lower(hex(randomblob(8)))")
        copy.commit()


def _is_backup(file: Path) -> bool:
    with explained(file), file.open("rb") as content:
        return content.read(len(_HEADER)) in (b"", _HEADER)
