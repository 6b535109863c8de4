"""What plans hold, what studies are after, and how plans without a study are removed: on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from hippotune.cli.main import main
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import (
    Checkpoint,
    CheckpointKept,
    Fact,
    FailureRecorded,
    MetricsRecorded,
    NodeAdded,
    Position,
    RequestMade,
    SpanRecorded,
)
from hippotune.sequences.config import Config
from hippotune.store import schema
from hippotune.store.catalog import Catalog, open_store
from hippotune.store.database import Database
from hippotune.store.lock import PlanInUse
from hippotune.store.totals import PlanTotals

OLD = PlanKey("Digits", "version:1", "{}", 0)
NEW = PlanKey("Digits", "version:2", "{}", 0)
ONE, OTHER = Config({"lr": 0.1}), Config({"lr": 0.2})
FACTS: list[Fact] = [
    NodeAdded(0, None, 0, ONE),
    NodeAdded(1, None, 0, OTHER),
    MetricsRecorded(1, Position(0, 1), {"loss": 1.0}),
    MetricsRecorded(2, Position(0, 2), {"loss": 0.5}),
    FailureRecorded(3, Position(1, 1), "no"),
    CheckpointKept(Position(0, 1), Checkpoint("one", 10, "")),
    CheckpointKept(Position(0, 2), Checkpoint("two", 2**40, "")),
    RequestMade("b", 0, OTHER, 1),
    RequestMade("a", 1, ONE, 1),
    RequestMade("a", 0, OTHER, 1),
    RequestMade("a", 1, ONE, 2),
    SpanRecorded(0, 0, 0, "train", 0, 2, 1.0, 2.0),
]


def fill(catalog: Catalog, key: PlanKey, *studies: str) -> None:
    for name in studies:
        catalog.bind(name, key)
    store = catalog.plan(key)
    store.write(FACTS)
    store.close()


def test_totals_tell_what_each_plan_holds(catalog: Catalog) -> None:
    fill(catalog, OLD, "a", "b")
    catalog.bind("c", NEW)
    assert catalog.totals() == {
        OLD: PlanTotals(
            asked={"b": [(0, 1)], "a": [(1, 0), (0, 1)]}, results=2, checkpoints=2, bytes=2**40 + 10
        ),
        NEW: PlanTotals(),
    }


def test_checkpoints_can_be_read_without_all_else(catalog: Catalog) -> None:
    fill(catalog, OLD, "a")
    assert list(catalog.view(OLD).checkpoints()) == FACTS[5:7]


def test_what_a_study_is_tuned_for_is_remembered_for_each_of_its_plans(catalog: Catalog) -> None:
    catalog.bind("a", OLD)
    catalog.aim("a", OLD, "accuracy", "max")
    catalog.bind("a", NEW)
    assert [(info.key, info.metric, info.mode) for info in catalog.studies()] == [
        (NEW, None, None),
        (OLD, "accuracy", "max"),
    ]
    catalog.aim("a", NEW, "loss", "min")
    catalog.bind("a", NEW)
    assert catalog.studies()[0].metric == "loss"


def test_a_plan_is_unused_once_all_its_studies_have_another(catalog: Catalog) -> None:
    for name in ("a", "b"):
        catalog.bind(name, OLD)
    catalog.bind("a", NEW)
    assert catalog.unused() == []
    catalog.bind("b", NEW)
    assert [info.key for info in catalog.unused()] == [OLD]
    catalog.bind("b", OLD)
    assert catalog.unused() == []


def test_a_plan_that_is_removed_leaves_nothing_behind(home: Path, url: str | None) -> None:
    with open_store(home, url) as catalog:
        fill(catalog, OLD, "a")
        fill(catalog, NEW, "a")
        catalog.remove(OLD)
        assert [info.key for info in catalog.plans()] == [NEW]
        assert [info.key for info in catalog.studies()] == [NEW]
        view = catalog.view(NEW)
        assert len(list(view.read())) == len(FACTS) - 1
        assert len(list(view.spans())) == 1
    database = Database.at(home / "plans.sqlite") if url is None else Database.by(url)
    tables = [value for value in vars(schema).values() if isinstance(value, sa.TableClause)]
    with database.reading() as connection:
        for table in tables:
            if "plan" in table.c:
                assert set(connection.execute(sa.select(table.c.plan)).scalars()) <= {2}, table.name
    database.close()


def test_a_removed_plan_can_begin_anew(catalog: Catalog) -> None:
    fill(catalog, OLD, "a")
    catalog.bind("a", NEW)
    catalog.remove(OLD)
    fill(catalog, OLD, "a")
    assert catalog.totals()[OLD].results == 2


def test_a_plan_that_a_study_uses_is_not_removed(catalog: Catalog) -> None:
    fill(catalog, OLD, "a")
    with pytest.raises(PlanInUse, match="is used by study 'a'"):
        catalog.remove(OLD)
    assert catalog.totals()[OLD].results == 2
    catalog.plan(OLD).close()


def test_a_plan_whose_lock_is_held_is_not_removed(catalog: Catalog) -> None:
    fill(catalog, OLD, "a")
    catalog.bind("a", NEW)
    held = catalog.plan(OLD)
    with pytest.raises(PlanInUse, match="by this very process"):
        catalog.remove(OLD)
    held.close()
    catalog.remove(OLD)


def test_commands_look_at_either_database_and_clean_it(
    home: Path, url: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(home, url) as catalog:
        fill(catalog, OLD, "a")
        fill(catalog, NEW, "a", "b")
    store = ["--home", str(home), *(["--store", url] if url else [])]

    def told(*arguments: str) -> str:
        assert main([*arguments, *store]) == 0
        return capsys.readouterr().out

    listed = told("ls").splitlines()
    assert [line.split()[:4] for line in listed[1:3]] == [
        ["b", "Digits", "1", "2"],
        ["a", "Digits", "2", "2"],
    ]
    shown = told("show", "a", "--metric", "loss", "--mode", "min")
    assert "trial 1 at step 2: loss 0.5" in shown
    assert "trial 0: no" in shown
    assert len(told("export", "a", "--unproved").splitlines()) == 1 + 3
    assert f"removed the plan {OLD.digest} of Digits" in told("gc", "--plans", "--yes")
    assert told("gc", "--plans", "--yes") == "nothing to remove\n"
    assert told("ls").splitlines() == listed[:3]
