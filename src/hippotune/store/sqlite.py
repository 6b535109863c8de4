"""A SQLite database in a file: durable settings, transactions, and reading where nothing may be written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from hippotune import scratch
from hippotune.durable import sync
from hippotune.errors import StoreError

BUSY_SECONDS = 60
"""How long to wait for another process to finish its transaction."""
_PAUSE = 0.01
_SETTINGS = (
    "PRAGMA synchronous=EXTRA",  # every commit reaches the disk, not only every checkpoint of the log
    "PRAGMA fullfsync=ON",  # … on macOS too
)


def open_file(path: Path) -> sa.Engine:
    """Open a database, which is made where it does not exist; one that may not be written to can be read."""
    if path.exists() and not os.access(path.parent, os.W_OK):
        return _reading_only(path)
    try:
        _make_durable(path.parent)
    except OSError as error:
        raise StoreError(f"cannot write to {path.parent}: {error.strerror}; choose another home") from error
    url = sa.URL.create("sqlite", database=str(path))
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    sa.event.listen(engine, "connect", _set_up)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _set_up(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver leaves transactions alone; see `_begin`
    _have_log(connection)
    for setting in _SETTINGS:
        connection.execute(setting)


def _have_log(connection: sqlite3.Connection) -> None:
    """Have readers and the writer not wait for each other.

    While another process writes, as where several make a database at once, SQLite refuses that at once.
    """
    until = monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > until:
                raise
            sleep(_PAUSE)
        else:
            return


def _begin(connection: sa.Connection) -> None:
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _reading_only(path: Path) -> sa.Engine:
    """Open a database where SQLite cannot make the files that it needs beside it.

    A log that a killed process left there has to be read with the database: then both are copied first.
    """
    logs = [path.with_name(path.name + ending) for ending in ("-wal", "-shm")]
    options, copy = "mode=ro", None
    if not (logs[0].exists() and logs[0].stat().st_size):
        options += "&immutable=1"
    elif not logs[1].exists():
        copy = tempfile.TemporaryDirectory(dir=scratch.place())
        for file in (path, logs[0]):
            shutil.copy(file, copy.name)
        path, options = Path(copy.name, path.name), "mode=rw"

    def connect() -> sqlite3.Connection:
        assert copy is None or os.path.isdir(copy.name)  # it lasts as long as this function
        return sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?{options}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
        )

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.NullPool)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _make_durable(folder: Path) -> None:
    """Make a folder with those above it, so that it is there after a loss of power too."""
    if folder.is_dir():
        return
    _make_durable(folder.parent)
    folder.mkdir(exist_ok=True)
    sync(folder.parent)
