"""Versions of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from hippotune.errors import StoreError
from hippotune.store import schema
from hippotune.store.catalog import open_store
from hippotune.store.database import Database
from hippotune.store.schema import MIGRATIONS, migrate, stored_version


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
            assert stored_version(connection) == len(MIGRATIONS)


def test_the_tables_have_the_columns_that_the_code_names(database: Database) -> None:
    with database.changing() as connection:
        migrate(connection, "here")
        found = {
            name: [column["name"] for column in sa.inspect(connection).get_columns(name)]
            for name in sa.inspect(connection).get_table_names()
        }
    named = [value for value in vars(schema).values() if isinstance(value, sa.TableClause)]
    assert found == {table.name: table.c.keys() for table in named}


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
        assert stored_version(connection) == len(MIGRATIONS) + 1
        assert connection.exec_driver_sql("SELECT digest, color FROM hippo_plans").all() == [("abc", None)]


def test_a_migration_that_fails_changes_nothing(database: Database) -> None:
    with database.changing() as connection:
        migrate(connection, "here")
    with pytest.raises(StoreError, match="hippo_missing"), database.changing() as connection:
        migrate(connection, "here", [*MIGRATIONS, add_color, drop_missing])
    with database.reading() as connection:
        assert stored_version(connection) == len(MIGRATIONS)
        columns = [column["name"] for column in sa.inspect(connection).get_columns("hippo_plans")]
        assert "color" not in columns


def test_a_newer_store_is_refused_by_naming_both_versions(
    home: Path, url: str | None, database: Database
) -> None:
    with database.changing() as connection:
        migrate(connection, "here")
        connection.exec_driver_sql("UPDATE hippo_schema SET version = 99")
    with pytest.raises(StoreError, match=f"version 99.*up to {len(MIGRATIONS)}; upgrade Hippo"):
        open_store(home, url)
