"""Versions of the tables."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from hippotune.errors import StoreError
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import (
    Checkpoint,
    CheckpointKept,
    FailureRecorded,
    MetricsRecorded,
    NodeAdded,
    NumbersRecorded,
    Position,
    ProofRecorded,
    RequestMade,
    SpanRecorded,
)
from hippotune.sequences.config import Config
from hippotune.store import schema
from hippotune.store.catalog import open_store
from hippotune.store.check_values import check_value
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


OLD = """
INSERT INTO hippo_plans (id, digest, trainer, version, settings, seed, made)
    VALUES ({n}, '{digest}', 'Digits', 'version:{n}', '{{}}', '0', 1.5);
INSERT INTO hippo_sequences VALUES ({n}, 0, '0.1', NULL);
INSERT INTO hippo_configs VALUES ({n}, 0, '{{"lr":0}}', NULL);
INSERT INTO hippo_nodes VALUES ({n}, 0, NULL, 0, 0, '', {node});
INSERT INTO hippo_checkpoints VALUES ({n}, 0, 5, 'a', 10, 'abc', NULL, NULL, NULL);
INSERT INTO hippo_results VALUES ({n}, 3, 0, 5, '{{"loss":0.5}}', NULL, NULL, {result});
INSERT INTO hippo_results VALUES ({n}, 4, 0, 9, NULL, 'no', 'suspended', NULL);
INSERT INTO hippo_proofs VALUES ({n}, 0, 'rehearsal', 0, 2, '["exact","",null,2,0.0]', NULL);
INSERT INTO hippo_requests VALUES ({n}, 0, 'study', 0, 0, 5, {request});
INSERT INTO hippo_spans VALUES ({n}, 0, 1, 2, 0, 'train', 0, 5, 1.0, 2.0, 1.0, 0.5, {span});
INSERT INTO hippo_spans VALUES ({n}, 1, 1, 3, 0, 'train', 5, 9, 2.0, 3.0, 1.0, NULL, NULL);
INSERT INTO hippo_logged VALUES ({n}, 0, 0, 1, 2, NULL, '{{"x":[1.0,2.0]}}', {logged})
"""


def fill_as_before_facts_were_numbered(database: Database, n: int, key: PlanKey, damage: int = 0) -> None:
    with database.changing() as connection:
        migrate(connection, "here", MIGRATIONS[:11])
        checks = {
            "node": check_value((n, 0, None, 0, 0, "")),
            "result": check_value((n, 3, 0, 5, '{"loss":0.5}')) + damage,
            "request": check_value((n, 0, "study", 0, 0, 5)),
            "span": check_value((n, 0, 1, 2, 0, "train", 0, 5, 1.0, 2.0, 1.0, 0.5)),
            "logged": check_value((n, 0, 0, 1, 2, None, '{"x":[1.0,2.0]}')),
        }
        for statement in OLD.format(n=n, digest=key.digest, **checks).split(";"):
            connection.exec_driver_sql(statement)


def test_facts_of_an_older_store_are_numbered_as_they_are_replayed(
    home: Path, url: str | None, database: Database
) -> None:
    keys = [PlanKey("Digits", f"version:{n}", "{}", 0) for n in (1, 2)]
    for n, key in enumerate(keys, 1):
        fill_as_before_facts_were_numbered(database, n, key)
    config, at = Config({"lr": 0.1}), Position(0, 5)
    known = [
        NodeAdded(0, None, 0, config),
        CheckpointKept(at, Checkpoint("a", 10, "abc")),
        MetricsRecorded(3, at, {"loss": 0.5}),
        FailureRecorded(4, Position(0, 9), "no", suspended=True),
        ProofRecorded("rehearsal", Position(0, 2), "exact", step=2),
        RequestMade("study", 0, config, 5),
    ]
    worked = [
        SpanRecorded(1, 2, 0, "train", 0, 5, 1.0, 2.0, 1.0, 0.5),
        SpanRecorded(1, 3, 0, "train", 5, 9, 2.0, 3.0),
    ]
    logged = NumbersRecorded(0, (1, 2), {"x": (1.0, 2.0)})
    with open_store(home, url) as catalog:
        for key in keys:
            view = catalog.view(key)
            assert list(view.facts()) == list(enumerate([*known, *worked, logged], 1))
            assert list(view.read()) == known
        assert catalog.view(keys[0]).incarnation != catalog.view(keys[1]).incarnation
        with closing(catalog.plan(keys[0])) as store:
            store.write([RequestMade("study", 0, config, 5), RequestMade("study", 1, config, 5)])
        assert list(view.facts(9)) == []
        assert list(catalog.view(keys[0]).facts(9)) == [(10, RequestMade("study", 1, config, 5))]


def test_what_was_damaged_before_facts_were_numbered_still_is(
    home: Path, url: str | None, database: Database
) -> None:
    key = PlanKey("Digits", "version:1", "{}", 0)
    fill_as_before_facts_were_numbered(database, 1, key, damage=1)
    with (
        open_store(home, url) as catalog,
        pytest.raises(StoreError, match=r"hippo_results .*not what was wr"),
    ):
        list(catalog.view(key).facts())


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
