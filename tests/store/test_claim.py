"""A home belongs to its store: nothing is removed from the folders of another one, or of a newer one."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from hippotune.errors import StoreError
from hippotune.plan.facts import CheckpointKept, NodeAdded, Position
from hippotune.sequences.config import Config
from hippotune.store.catalog import Catalog, open_store
from hippotune.store.claim import Mark, SetAside
from hippotune.store.files import CheckpointFiles, checkpoint_name, new_name
from store.conftest import new_key

KEY = new_key()


def files_of(home: Path) -> CheckpointFiles:
    return CheckpointFiles(home / "checkpoints" / KEY.digest)


def open_plan(catalog: Catalog, home: Path) -> tuple[SetAside | None, list[str]]:
    """Open the plan as a study and `gc` do; return what was set aside, and what was swept."""
    with closing(catalog.plan(KEY)) as store:
        aside = store.claim(files_of(home))
        return aside, files_of(home).sweep({kept.checkpoint.name for kept in store.checkpoints()})


def train(catalog: Catalog, home: Path, *steps: int) -> None:
    with closing(catalog.plan(KEY)) as store:
        store.claim(files_of(home))
        if not list(store.read()):
            store.write([NodeAdded(0, None, 0, Config({"lr": 0.1}))])
        for step in steps:
            saved = files_of(home).save(new_name(0, step), lambda file: file.write(b"state"))  # type: ignore[arg-type, return-value]
            store.write([CheckpointKept(Position(0, step), saved)])


def names(home: Path) -> set[str]:
    return set(files_of(home).names())


def test_a_folder_is_known_again_and_what_the_plan_does_not_know_is_swept(
    catalog: Catalog, home: Path
) -> None:
    train(catalog, home, 1, 2)
    kept = names(home)
    stray = files_of(home).save(new_name(0, 3), lambda file: None)
    assert open_plan(catalog, home) == (None, [stray.name])
    assert open_plan(catalog, home) == (None, [])
    assert names(home) == kept


def test_a_store_that_was_begun_anew_in_an_old_home_is_refused(home: Path) -> None:
    with open_store(home) as catalog:
        train(catalog, home, 1, 2)
    kept = names(home)
    for file in home.glob("plans.sqlite*"):
        file.rename(file.with_name(f"away-{file.name}"))
    with open_store(home) as catalog:
        for _ in range(2):
            with pytest.raises(
                StoreError,
                match=r"belong to another store \(id .*Nothing was removed\. Put the right database",
            ):
                open_plan(catalog, home)
    assert names(home) == kept
    for file in home.glob("away-*"):
        file.rename(file.with_name(file.name.removeprefix("away-")))
    with open_store(home) as catalog:
        assert open_plan(catalog, home) == (None, [])


def test_another_database_with_the_same_home_is_refused(home: Path, postgresql: str) -> None:
    with open_store(home) as catalog, open_store(home, postgresql) as other:
        train(catalog, home, 1, 2)
        kept = names(home)
        with pytest.raises(StoreError, match="belong to another store"):
            open_plan(other, home)
        assert names(home) == kept


def test_an_older_copy_of_the_store_sets_aside_what_it_does_not_know(home: Path, tmp_path: Path) -> None:
    with open_store(home) as catalog:
        train(catalog, home, 1, 2)
    old = names(home)
    shutil.copy(home / "plans.sqlite", tmp_path / "copy")
    with open_store(home) as catalog:
        train(catalog, home, 3, 4)
    new = names(home) - old
    for file in home.glob("plans.sqlite*"):
        file.unlink()
    shutil.copy(tmp_path / "copy", home / "plans.sqlite")
    with open_store(home) as catalog:
        aside, swept = open_plan(catalog, home)
        assert swept == []
        assert names(home) == old
        assert aside is not None
        assert aside.count == 2
        assert set(CheckpointFiles(Path(aside.folder)).names()) == new
        assert "the database is older than this plan's checkpoints" in str(aside)
        assert open_plan(catalog, home) == (None, [])


def test_killed_while_it_sets_aside_a_store_goes_on_with_it(home: Path, tmp_path: Path) -> None:
    with open_store(home) as catalog:
        train(catalog, home, 1)
        shutil.copytree(home, tmp_path / "copy")
        train(catalog, home, 2, 3)
    for file in home.glob("plans.sqlite*"):
        file.unlink()
    for file in (tmp_path / "copy").glob("plans.sqlite*"):
        shutil.copy(file, home)
    with open_store(home) as catalog, closing(catalog.plan(KEY)) as store:
        mark = Mark.of(files_of(home))
        assert mark is not None
        planned = store.claim(files_of(home), look_only=True)
        assert planned is not None
        first = sorted(names(home) - {kept.checkpoint.name for kept in store.checkpoints()})[0]
        (Path(planned.folder) / first).parent.mkdir(parents=True)
        (files_of(home).directory / first).rename(Path(planned.folder) / first)
        assert Mark.of(files_of(home)) == mark
        aside = store.claim(files_of(home))
        assert aside == SetAside(1, planned.folder)
        assert len(set(CheckpointFiles(Path(aside.folder)).names())) == 2


def test_a_folder_without_a_mark_is_taken_over_if_the_store_knows_something_in_it(
    catalog: Catalog, home: Path
) -> None:
    train(catalog, home, 1)
    (files_of(home).directory / "store.json").unlink()
    assert open_plan(catalog, home) == (None, [])
    strange = files_of(home).directory / "store.json"
    strange.write_text("{")
    with pytest.raises(StoreError, match=r"store.json, which says .* cannot be read"):
        open_plan(catalog, home)
    strange.unlink()
    for name in names(home):
        (files_of(home).directory / name).unlink()
    other = files_of(home).directory / checkpoint_name(7, 7)
    other.write_text("not known")
    with pytest.raises(StoreError, match="holds 1 checkpoints, none of which is known"):
        open_plan(catalog, home)
    assert other.exists()


def test_nothing_is_removed_through_a_link(catalog: Catalog, home: Path, tmp_path: Path) -> None:
    train(catalog, home, 1)
    folder = files_of(home).directory
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    mine = elsewhere / "node-1-step-1"
    mine.write_text("mine")
    linked = folder / "3f"
    shutil.rmtree(linked)
    linked.symlink_to(elsewhere)
    (folder / "00" / "link").symlink_to(elsewhere)
    (folder / "01" / "dangling").symlink_to(tmp_path / "nowhere")
    files = files_of(home)
    assert set(files.strays(set(names(home)) - {"00/link", "01/dangling"})) == {"00/link", "01/dangling"}
    open_plan(catalog, home)
    assert not (folder / "00" / "link").is_symlink()
    assert mine.read_text() == "mine"
    files.delete(CheckpointKept(Position(1, 1), files.save("3f/node-1-step-1", lambda file: None)).checkpoint)
    assert mine.exists()
    moved = folder.rename(tmp_path / "moved")
    folder.symlink_to(moved)
    before = set(moved.rglob("*"))
    with pytest.raises(StoreError, match="is a symbolic link"):
        open_plan(catalog, home)
    assert set(moved.rglob("*")) == before
