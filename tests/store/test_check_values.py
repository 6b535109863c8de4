"""One changed digit in the database is noticed, wherever it is."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from hippotune.errors import StoreError
from hippotune.plan.facts import (
    CheckpointDropped,
    Fact,
    FailureRecorded,
    MetricsRecorded,
    NodeAdded,
    NumbersRecorded,
    Position,
    ProofRecorded,
    RequestMade,
    SpanRecorded,
    StudyBegan,
)
from hippotune.sequences.config import Config
from hippotune.store.catalog import Catalog
from hippotune.store.check_values import check_value
from hippotune.store.database import Database
from hippotune.store.schema import FACTS, RESULTS
from store.conftest import new_key

KEY = new_key()
CONFIG = Config({"lr": 0.1, "name": "a ü"})
WRITTEN: list[Fact] = [
    NodeAdded(0, None, 0, CONFIG),
    MetricsRecorded(1, Position(0, 5), {"loss": 0.25}),
    FailureRecorded(2, Position(0, 9), "no ü"),
    RequestMade("a", 0, CONFIG, 5),
    SpanRecorded(0, 0, 0, "train", 0, 5, 1, 2.5, 2, 0.1),
    NumbersRecorded(0, (1, 2, 5), {"loss": (0.5, None, 0.1)}),
    ProofRecorded("rehearsal", Position(0, 2), "exact", "ü 3", None, 2, 0.5),
    StudyBegan("a", 1, 2.5, "loss", "min", {"tuner": "ü"}),
    CheckpointDropped(Position(0, 5)),
]
LISTED = [fact for fact in WRITTEN if not isinstance(fact, CheckpointDropped)]


@pytest.fixture
def filled(catalog: Catalog) -> Catalog:
    with closing(catalog.plan(KEY)) as store:
        store.write(WRITTEN)
    return catalog


def everything(catalog: Catalog) -> list[Fact]:
    view = catalog.view(KEY)
    found = [*view.read(), *view.spans(), *view.logged(0), *view.logged(7)]
    list(view.facts())
    return found


def test_what_was_written_is_read_again(filled: Catalog) -> None:
    found = everything(filled)
    assert len(found) == len(LISTED)
    assert all(fact in found for fact in LISTED)
    assert [fact for _, fact in filled.view(KEY).facts()] == WRITTEN


def changes() -> list[tuple[str, str]]:
    """Return every column of every table of facts that a digit can change in."""
    numbers = {"parent", "metrics", "error", "kind", "steps", "time", "check_value"}  # these may be NULL
    return [
        (table.name, column)
        for table in FACTS
        for column in (each.name for each in table.c)
        if column not in numbers | {"plan", "salt"}
    ]


@pytest.mark.parametrize(("table", "column"), changes())
def test_one_changed_digit_is_noticed(
    filled: Catalog, home: Path, url: str | None, table: str, column: str
) -> None:
    database = Database.at(home / "plans.sqlite") if url is None else Database.by(url)
    with database.changing() as connection:
        value = connection.exec_driver_sql(f"SELECT {column} FROM {table} LIMIT 1").scalar_one()
        changed = value + 1 if isinstance(value, int | float) else f"{value} "
        update = sa.text(f"UPDATE {table} SET {column} = :changed")
        if isinstance(value, int) and column in ("number", "ordinal", "id", "node"):
            update = sa.text(f"UPDATE {table} SET {column} = {column} + 7")
        connection.execute(update, {"changed": changed} if ":changed" in str(update) else {})
    database.close()
    with pytest.raises(StoreError, match=rf"a row of {table} .* is not what was written: .*hippo doctor"):
        everything(filled)


def test_a_row_that_holds_no_json_is_told_too_even_where_its_check_value_fits(
    filled: Catalog, home: Path, url: str | None
) -> None:
    database = Database.at(home / "plans.sqlite") if url is None else Database.by(url)
    with database.changing() as connection:
        row = connection.execute(sa.select(RESULTS).where(RESULTS.c.ordinal == 1)).one()
        changed = {**row._mapping, "metrics": "{"}
        changed["check_value"] = check_value(tuple(changed.values())[:-1])
        connection.execute(sa.update(RESULTS).where(RESULTS.c.ordinal == 1).values(**changed))
    database.close()
    with pytest.raises(StoreError, match=r"text that is not what was written: .*hippo doctor"):
        everything(filled)


def test_a_negative_zero_is_read_back_as_zero(catalog: Catalog) -> None:
    with closing(catalog.plan(KEY)) as store:
        store.write([SpanRecorded(0, 0, 0, "train", 0, 1, -0.0, 1.0, 1.0, -0.0)])
        assert [(span.began, span.seconds) for span in store.spans()] == [(0.0, 0.0)]
