"""Checkpoints that this store's driver did not write are not used: on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from hippotune.errors import StoreError
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import Checkpoint, CheckpointKept, Fact, NodeAdded, Position
from hippotune.sequences.config import Config
from hippotune.store.catalog import Catalog, open_store
from hippotune.store.checkpoint_rows import CheckpointRows
from hippotune.store.database import Database
from hippotune.store.files import CheckpointFiles
from hippotune.store.schema import CHECKPOINTS
from hippotune.store.secret import FILE_NAME, Secret

PLAN = PlanKey("Digits", "version:1", "{}", 0)
OTHER = PlanKey("Digits", "version:2", "{}", 0)
NODES: list[Fact] = [NodeAdded(0, None, 0, Config({"lr": 0.1})), NodeAdded(1, None, 0, Config({"lr": 0.2}))]
KEPT = [
    CheckpointKept(Position(node, step), Checkpoint(f"00/node-{node}-step-{step}", 10, f"{node}{step}"))
    for node in (0, 1)
    for step in (1, 2)
]
Change = Callable[[str], None]


@pytest.fixture
def change(home: Path, url: str | None) -> Change:
    """Change the database as somebody would who can write to it, but has no key."""

    def change(statement: str) -> None:
        database = Database.at(home / "plans.sqlite") if url is None else Database.by(url)
        with database.changing() as connection:
            connection.execute(sa.text(statement))
        database.close()

    return change


@pytest.fixture
def filled(home: Path, url: str | None) -> None:
    with open_store(home, url) as catalog:
        for key in (OTHER, PLAN):
            with closing(catalog.plan(key)) as store:
                store.write([*NODES, *KEPT])


def opened(catalog: Catalog) -> tuple[list[Fact], int]:
    """Open the plan as a study does; return its checkpoints and how many were refused."""
    with closing(catalog.plan(PLAN)) as store:
        found: list[Fact] = [fact for fact in store.read() if isinstance(fact, CheckpointKept)]
        return found, store.drop_refused()


@pytest.mark.usefixtures("filled")
def test_what_was_written_is_accepted_again_and_again(home: Path, url: str | None) -> None:
    for _ in range(2):
        with open_store(home, url) as catalog:
            assert opened(catalog) == (KEPT, 0)


AT = "plan = 2 AND node = 0 AND step = 1"  # the first plan is the other one
ALTERED = {
    "digest": f"UPDATE hippo_checkpoints SET checksum = 'abc' WHERE {AT}",
    "size": f"UPDATE hippo_checkpoints SET bytes = 11 WHERE {AT}",
    "name": f"UPDATE hippo_checkpoints SET name = '00/node-9-step-9' WHERE {AT}",
    "check": f"UPDATE hippo_checkpoints SET keyed_check = '{'0' * 64}' WHERE {AT}",
    "no check": f"UPDATE hippo_checkpoints SET keyed_check = NULL WHERE {AT}",
    "moved to another step": f"UPDATE hippo_checkpoints SET step = 5 WHERE {AT}",
    "moved to another node": f"UPDATE hippo_checkpoints SET node = 5 WHERE {AT}",
}


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("what", ALTERED)
def test_a_row_that_was_altered_or_moved_is_refused_once_and_then_gone(
    home: Path, url: str | None, change: Change, what: str
) -> None:
    change(ALTERED[what])
    with open_store(home, url) as catalog:
        assert opened(catalog) == (KEPT[1:], 1)
        assert opened(catalog) == (KEPT[1:], 0)
        assert list(catalog.view(PLAN).checkpoints()) == KEPT[1:]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    "source", ["plan = 1 AND node = 0 AND step = 1", "plan = 2 AND node = 1 AND step = 1"]
)
def test_a_row_that_was_copied_from_another_plan_or_position_is_refused(
    home: Path, url: str | None, change: Change, source: str
) -> None:
    columns = "name, bytes, checksum, keyed_check"
    change(f"DELETE FROM hippo_checkpoints WHERE {AT}")
    change(
        f"INSERT INTO hippo_checkpoints (plan, node, step, {columns}) "
        f"SELECT 2, 0, {'1' if source.startswith('plan = 2') else '3'}, {columns} "
        f"FROM hippo_checkpoints WHERE {source}"
    )
    with open_store(home, url) as catalog:
        assert opened(catalog) == (KEPT[1:], 1)


@pytest.mark.usefixtures("filled")
def test_the_row_of_another_plan_at_the_same_position_is_refused(
    home: Path, url: str | None, change: Change
) -> None:
    change("DELETE FROM hippo_checkpoints WHERE plan = 2")
    change("UPDATE hippo_checkpoints SET plan = 2")
    with open_store(home, url) as catalog:
        assert opened(catalog) == ([], len(KEPT))


@pytest.mark.usefixtures("filled")
def test_a_planted_row_is_refused(home: Path, url: str | None, change: Change) -> None:
    change(
        "INSERT INTO hippo_checkpoints (plan, node, step, name, bytes, checksum) "
        "VALUES (2, 0, 9, '00/node-0-step-9', 1, 'abc')"
    )
    with open_store(home, url) as catalog:
        assert opened(catalog) == (KEPT, 1)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("replaced", [False, True])
def test_without_its_key_a_plan_is_refused_until_the_key_is_back_or_its_checkpoints_are_given_up(
    home: Path, url: str | None, tmp_path: Path, replaced: bool
) -> None:
    key = home / FILE_NAME
    away = key.rename(tmp_path / "away")
    if replaced:
        Secret.of(home)
    with open_store(home, url) as catalog:
        what = "another one now" if replaced else "missing"
        with pytest.raises(
            StoreError, match=f"key, with which 4 checkpoints .* is {what}: .*Nothing was removed"
        ):
            opened(catalog)
        away.replace(key)
        assert opened(catalog) == (KEPT, 0)
        key.unlink()
        with closing(catalog.plan(PLAN)) as store:
            assert store.give_up_checkpoints(CheckpointFiles(home / "files")) == len(KEPT)
            store.write(KEPT[:2])
        assert opened(catalog) == (KEPT[:2], 0)


@pytest.mark.usefixtures("filled")
def test_looking_needs_no_key_makes_none_and_drops_nothing(home: Path, url: str | None) -> None:
    (home / FILE_NAME).rename(home / "away")
    with open_store(home, url, create=False) as catalog:
        assert list(catalog.view(PLAN).read()) == [*NODES, *KEPT]
        assert catalog.totals()[PLAN].checkpoints == len(KEPT)
    assert not (home / FILE_NAME).exists()
    (home / "away").rename(home / FILE_NAME)
    with open_store(home, url) as catalog:
        assert opened(catalog) == (KEPT, 0)


@pytest.mark.usefixtures("filled")
def test_looking_with_the_key_passes_over_what_would_be_refused(
    home: Path, url: str | None, change: Change
) -> None:
    change(ALTERED["digest"])
    with open_store(home, url, create=False) as catalog:
        assert list(catalog.view(PLAN).read()) == [*NODES, *KEPT[1:]]
        assert list(catalog.view(PLAN).checkpoints())[1:] == KEPT[1:]


@pytest.mark.usefixtures("filled")
def test_a_key_that_others_can_read_keeps_a_plan_from_being_trained_on_but_not_from_being_looked_at(
    home: Path, url: str | None
) -> None:
    (home / FILE_NAME).chmod(0o644)
    with open_store(home, url) as catalog:
        with pytest.raises(StoreError, match="expected 0600"):
            opened(catalog)
        assert len(list(catalog.view(PLAN).read())) == len(NODES) + len(KEPT)


@pytest.mark.usefixtures("filled")
def test_the_key_is_nowhere_in_the_database(home: Path, url: str | None) -> None:
    key = (home / FILE_NAME).read_bytes()
    database = Database.at(home / "plans.sqlite") if url is None else Database.by(url)
    with database.reading() as connection:
        rows = [tuple(row) for row in connection.execute(sa.select(CHECKPOINTS))]
    assert len(rows) == 2 * len(KEPT)
    assert key.hex() not in repr(rows)
    if url is None:
        files = [path.read_bytes() for path in home.glob("plans.sqlite*")]
        assert not any(key in content for content in files)


@pytest.mark.usefixtures("filled")
def test_a_checkpoint_that_comes_while_others_are_looked_at_is_not_refused(
    home: Path, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is looked at while a study saves, between the two readings of its checkpoints."""
    read = CheckpointRows.read
    with open_store(home, url) as catalog, closing(catalog.plan(PLAN)) as trains:
        list(trains.read())

        def read_slowly(
            rows: CheckpointRows, connection: sa.Connection, checked: bool = True
        ) -> Iterator[CheckpointKept]:
            yield from read(rows, connection, checked)
            if checked:
                trains.write([CheckpointKept(Position(0, 7), Checkpoint("00/node-0-step-7", 10, "07"))])

        monkeypatch.setattr(CheckpointRows, "read", read_slowly)
        assert catalog.view(PLAN).sorted_checkpoints() == (KEPT, [])
