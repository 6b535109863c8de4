"""Opening stores, finding plans, and remembering which study uses which."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from hippotune.errors import InvalidInput, MissingExtra, StoreError
from hippotune.plan.facts import Fact, MetricsRecorded, NodeAdded, Position
from hippotune.sequences.config import Config
from hippotune.store.catalog import Catalog, open_store
from hippotune.store.key import PlanKey

ONE = PlanKey("Digits", "version:1", '{"hidden":32}', 0)
OTHER = PlanKey("Digits", "version:2", '{"hidden":32}', 2**70)
FACTS: list[Fact] = [
    NodeAdded(0, None, 0, Config({"lr": 0.1})),
    MetricsRecorded(1, Position(0, 1), {"x": 1.0}),
]


def test_a_plan_is_found_again_by_its_key(home: Path, url: str | None) -> None:
    with open_store(home, url) as catalog:
        store = catalog.plan(ONE)
        store.write(FACTS)
        store.close()
    with open_store(home, url) as catalog:
        store = catalog.plan(ONE)
        store.write([NodeAdded(1, 0, 5, Config({"lr": 0.2}))])
        assert list(store.read()) == [FACTS[0], NodeAdded(1, 0, 5, Config({"lr": 0.2})), FACTS[1]]
        store.close()
        assert list(catalog.plan(OTHER).read()) == []
        assert [info.key for info in catalog.plans()] == [ONE, OTHER]


def test_configs_that_were_stored_before_are_not_stored_again(home: Path) -> None:
    for node in range(3):
        with open_store(home) as catalog:
            store = catalog.plan(ONE)
            store.write([NodeAdded(node, None, 0, Config({"lr": 0.1, "bs": 32}))])
            store.close()
    engine = sa.create_engine(f"sqlite:///{home}/plans.sqlite")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM hippo_configs").scalar() == 1
        assert connection.exec_driver_sql("SELECT count(*) FROM hippo_sequences").scalar() == 2
    engine.dispose()


def test_a_study_is_told_which_other_plan_it_used_before(catalog: Catalog) -> None:
    assert catalog.bind("digits", ONE) is None
    assert catalog.bind("digits", ONE) is None
    assert catalog.bind("elsewhere", OTHER) is None
    assert catalog.bind("digits", OTHER) == ONE
    assert catalog.bind("digits", OTHER) is None
    assert catalog.bind("digits", ONE) == OTHER


def test_studies_are_listed_with_their_plans_the_last_used_first(catalog: Catalog) -> None:
    for study, key in (("a", ONE), ("b", ONE), ("a", OTHER), ("b", ONE)):
        catalog.bind(study, key)
    listed = catalog.studies()
    assert {(info.name, info.key) for info in listed} == {("a", ONE), ("b", ONE), ("a", OTHER)}
    assert all(info.made <= info.used for info in listed)
    assert [info.used for info in listed] == sorted((info.used for info in listed), reverse=True)


def test_a_study_name_that_no_database_holds_is_refused(catalog: Catalog) -> None:
    with pytest.raises(InvalidInput, match="study name"):
        catalog.bind("a\0b", ONE)


def test_a_plan_that_is_only_looked_at_cannot_be_written(catalog: Catalog) -> None:
    catalog.plan(ONE).close()
    with pytest.raises(StoreError, match="not open for writing"):
        catalog.view(ONE).write(FACTS)


def test_looking_at_a_plan_that_is_not_there_names_those_that_are(catalog: Catalog) -> None:
    catalog.plan(ONE).close()
    with pytest.raises(StoreError, match=f"no plan {OTHER.digest}.*{ONE.digest}"):
        catalog.view(OTHER)


def test_looking_makes_no_home(home: Path) -> None:
    with pytest.raises(StoreError, match="no store in"):
        open_store(home, create=False)
    assert not home.exists()


def test_looking_makes_no_tables(home: Path, postgresql: str) -> None:
    with pytest.raises(StoreError, match="holds no plans"):
        open_store(home, postgresql, create=False)
    with psycopg.connect(postgresql) as connection:
        tables = connection.execute("SELECT * FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert tables == []
    assert not home.exists()


@pytest.mark.parametrize(
    "url", ["nonsense", "mysql://me:secret@host/db", "sqlite:///x", "postgresql+pg8000://h/d"]
)
def test_another_kind_of_store_is_refused_without_showing_its_password(home: Path, url: str) -> None:
    with pytest.raises(InvalidInput, match="expected a URL such as postgresql://") as refused:
        open_store(home, url)
    assert "secret" not in str(refused.value)


def test_a_missing_driver_says_which_extra_brings_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'hippotune\[postgres\]'"):
        open_store(home, "postgresql://me:secret@host/db")


@pytest.mark.parametrize(
    "url", ["postgresql://me:se/cr@t@/db?host=%s", "postgres:///db?host=%s&password=se/cr@t"]
)
def test_a_server_that_is_not_there_is_named_without_its_password(home: Path, url: str) -> None:
    with pytest.raises(StoreError, match=r"/db\?host=.*can be reached") as refused:
        open_store(home, url % home)
    assert "cr@t" not in str(refused.value)


def test_a_database_that_is_not_there_is_named(home: Path, server: str) -> None:
    with pytest.raises(StoreError, match="database that exist"):
        open_store(home, server % "missing")


def test_a_file_that_is_no_database_is_refused(home: Path) -> None:
    home.mkdir()
    (home / "plans.sqlite").write_text("These are not the facts you are looking for.\n" * 100)
    with pytest.raises(StoreError, match="move it away"):
        open_store(home)


def test_a_home_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="choose another home"):
        open_store(tmp_path / "file" / "home")


def test_a_full_disk_is_said_to_be_full_and_costs_nothing_that_was_stored(home: Path) -> None:
    def small(connection: object, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 40")  # type: ignore[attr-defined]

    sa.event.listen(sa.Engine, "connect", small)
    try:
        with open_store(home) as catalog:
            store = catalog.plan(ONE)
            store.write(FACTS)
            with pytest.raises(StoreError, match="make room"):
                store.write([MetricsRecorded(n, Position(0, n), {"x" * 10_000: 1.0}) for n in range(2, 99)])
            assert list(store.read()) == FACTS
            store.close()
    finally:
        sa.event.remove(sa.Engine, "connect", small)


def test_a_lost_connection_is_said_to_be_lost_and_costs_nothing_that_was_stored(
    home: Path, postgresql: str
) -> None:
    with open_store(home, postgresql) as catalog:
        store = catalog.plan(ONE)
        store.write(FACTS[:1])
        with psycopg.connect(postgresql, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(session::int, 10000) FROM hippo_holders")
        with pytest.raises(StoreError, match="all that was acknowledged is kept"):
            store.write(FACTS[1:])
        store.close()
        again = catalog.plan(ONE)
        assert list(again.read()) == FACTS[:1]
        again.close()
