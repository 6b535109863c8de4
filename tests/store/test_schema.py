"""Versions of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from hippotune.errors import StoreError
from hippotune.store.catalog import open_store
from hippotune.store.database import Database
from hippotune.store.schema import FIRST, MIGRATIONS, migrate, stored_version

NEWEST = FIRST + len(MIGRATIONS)


@pytest.fixture
def database(home: Path, url: str | None) -> Database:
    return Database.at(home / "plans.sqlite") if url is None else Database.by(url)


def add_color(connection: sa.Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE hippo_plans ADD COLUMN color TEXT")


def drop_missing(connection: sa.Connection) -> None:
    connection.exec_driver_sql("DROP TABLE hippo_missing")


def test_an_empty_database_is_brought_up_to_date_and_then_left_alone(database: Database) -> None:
    for _ in range(2):
        with database.changing() as connection:
            migrate(connection, "here")
            assert stored_version(connection) == NEWEST


def test_an_older_store_gets_only_what_is_new(database: Database) -> None:
    with database.changing() as connection:
        migrate(connection, "here")
        connection.exec_driver_sql(
            "INSERT INTO hippo_plans (id, digest, trainer, version, settings, seed, made) "
            "VALUES (1, 'abc', 'Digits', 'version:1', '{}', '0', 1.5)"
        )
    with database.changing() as connection:
        migrate(connection, "here", [*MIGRATIONS, add_color])
    with database.reading() as connection:
        assert stored_version(connection) == NEWEST + 1
        assert connection.exec_driver_sql("SELECT digest, color FROM hippo_plans").all() == [("abc", None)]


def test_a_migration_that_fails_changes_nothing(database: Database) -> None:
    with database.changing() as connection:
        migrate(connection, "here")
    with pytest.raises(StoreError, match="hippo_missing"), database.changing() as connection:
        migrate(connection, "here", [*MIGRATIONS, add_color, drop_missing])
    with database.reading() as connection:
        assert stored_version(connection) == NEWEST
        columns = [column["name"] for column in sa.inspect(connection).get_columns("hippo_plans")]
        assert "color" not in columns


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (99, f"version 99.*up to {NEWEST}; upgrade Hippo"),
        (FIRST - 1, f"before Hippo's first release.*version {FIRST - 1}.*oldest .* is {FIRST}"),
    ],
)
def test_a_store_that_is_newer_or_too_old_is_refused_by_naming_both_versions(
    home: Path, url: str | None, database: Database, version: int, told: str
) -> None:
    with database.changing() as connection:
        migrate(connection, "here")
        connection.exec_driver_sql(f"UPDATE hippo_schema SET version = {version}")
    with pytest.raises(StoreError, match=told):
        open_store(home, url)
