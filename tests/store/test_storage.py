"""The contract of checkpoint storage, for files and for objects in a bucket."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO

import obstore
import pytest

from hippotune.errors import CheckpointError, InvalidInput, StorageUnavailable
from hippotune.plan.facts import Checkpoint
from hippotune.store import objects
from hippotune.store.digests import PIECE
from hippotune.store.files import CheckpointFiles, FileHome, checkpoint_name
from hippotune.store.homes import checkpoints_of, parse_home, storage_of, write_url
from hippotune.store.objects import CheckpointObjects, ObjectHome
from hippotune.store.storage import CheckpointStorage, StorageHome
from s3 import Server

NAME, OTHER = checkpoint_name(3, 10), checkpoint_name(4, 11)
_places = itertools.count()


@dataclass
class Place:
    """A home of each kind, and a plan's checkpoints in it; `another` sees them from another machine."""

    home: StorageHome
    files: CheckpointStorage
    another: Callable[[], CheckpointStorage]
    overwrite: Callable[[str, bytes], None]
    raw: Callable[[str], bytes]


@pytest.fixture(params=["files", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "files":
        files = CheckpointFiles(tmp_path / "checkpoints" / "plan")
        another = partial(CheckpointFiles, files.directory)
        home = FileHome(tmp_path / "checkpoints")

        def overwrite(name: str, content: bytes) -> None:
            files.path(name).write_bytes(content)

        return Place(home, files, another, overwrite, lambda name: files.path(name).read_bytes())
    if request.param == "memory":
        root = f"memory:///{next(_places)}"
    else:
        root = f"{request.getfixturevalue('s3').new_bucket()}/some/home"
    machines = (tmp_path / f"machine-{number}" for number in itertools.count())

    def make() -> CheckpointObjects:
        return CheckpointObjects(f"{root}/plan", next(machines) / "plan")

    store = objects.opened(root)
    return Place(
        ObjectHome(root, tmp_path / "machine-0"),
        make(),
        make,
        lambda name, content: obstore.put(store, f"plan/{name}", content) and None,
        lambda name: bytes(obstore.get(store, f"plan/{name}").bytes()),
    )


def a_file(content: bytes = b"state") -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        file.write(content)

    return write


def content_of(files: CheckpointStorage, checkpoint: Checkpoint) -> bytes:
    with files.read(checkpoint) as file:
        return file.read()


@pytest.mark.parametrize("length", [0, 1, PIECE, 2 * PIECE + 17, 9 * PIECE])
def test_what_was_saved_is_read_back_here_and_on_another_machine(place: Place, length: int) -> None:
    content = bytes(range(251)) * (length // 251) + bytes(length % 251)
    checkpoint = place.files.save(NAME, a_file(content))
    assert len(place.raw(NAME)) == checkpoint.bytes
    for files in (place.files, place.another()):
        assert content_of(files, checkpoint) == content
        assert content_of(files, checkpoint) == content
        assert files.verify(checkpoint) == files.local_path(checkpoint)
        assert list(files.names()) == [NAME]


def test_a_write_that_raises_leaves_nothing_behind(place: Place) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"half")
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        place.files.save(NAME, write)
    assert list(place.files.names()) == []
    assert place.files.strays(set()) == {}


def test_a_name_that_is_saved_again_holds_what_was_saved_last(place: Place) -> None:
    first = place.files.save(NAME, a_file(b"first"))
    second = place.files.save(NAME, a_file(b"second"))
    assert content_of(place.another(), second) == b"second"
    with pytest.raises(CheckpointError):
        content_of(place.another(), first)


def test_one_that_is_missing_says_so(place: Place) -> None:
    checkpoint = place.files.save(NAME, a_file())
    place.files.delete(checkpoint)
    place.files.delete(checkpoint)
    for files in (place.files, place.another()):
        for look in (files.read, files.verify):
            with pytest.raises(CheckpointError, match="is missing"):
                look(checkpoint)


@pytest.mark.parametrize("damage", [lambda it: it[:-1], lambda it: b"x" + it[1:], lambda it: b""])
def test_one_that_is_not_what_was_written_is_not_read(place: Place, damage: Callable[[bytes], bytes]) -> None:
    checkpoint = place.files.save(NAME, a_file(b"12345"))
    place.overwrite(NAME, damage(place.raw(NAME)))
    with pytest.raises(CheckpointError):
        content_of(place.another(), checkpoint)
    for files in (place.files, place.another()):
        with pytest.raises(CheckpointError):
            files.verify(checkpoint)


def test_a_sweep_removes_what_is_not_known(place: Place) -> None:
    kept, stray = place.files.save(NAME, a_file()), place.files.save(OTHER, a_file(b"a stray"))
    assert place.files.strays({NAME}) == {OTHER: stray.bytes}
    assert place.files.sweep({NAME}) == [OTHER]
    assert place.files.sweep({NAME}) == []
    assert content_of(place.another(), kept) == b"state"
    assert list(place.files.names()) == [NAME]


def test_the_mark_is_no_checkpoint_and_is_replaced_whole(place: Place) -> None:
    assert place.files.read_mark() is None
    place.files.write_mark("one")
    place.files.write_mark("two")
    assert place.another().read_mark() == "two"
    assert list(place.files.names()) == []
    assert place.files.sweep(set()) == []


def test_what_is_set_aside_is_elsewhere_and_whole(place: Place) -> None:
    place.files.save(NAME, a_file())
    stray = place.files.save(OTHER, a_file(b"a stray"))
    count, where = place.files.set_aside({NAME}, "token", look_only=True)
    assert (count, where) == (1, f"{place.files.where}.unknown-token")
    assert sorted(place.files.names()) == sorted([NAME, OTHER])
    assert place.files.set_aside({NAME}, "token") == (count, where)
    assert place.files.set_aside({NAME}, "token") == (0, where)
    assert list(place.files.names()) == [NAME]
    assert content_of(place.home.of("plan.unknown-token"), stray) == b"a stray"


def test_a_home_lists_measures_and_removes_folders(place: Place) -> None:
    assert place.home.folders() == []
    place.files.write_mark("mine")
    checkpoint = place.files.save(NAME, a_file())
    assert place.home.folders() == ["plan"]
    assert place.home.size("plan") == checkpoint.bytes + len("mine")
    assert place.home.of("plan").where == place.files.where
    place.home.remove(place.home.retire("plan"))
    assert place.home.folders() == []
    assert place.another().read_mark() is None
    assert list(place.another().names()) == []


@pytest.mark.parametrize("name", ["../escape", "node-1-step-2", "00/../../x", ""])
def test_other_names_are_refused(place: Place, name: str) -> None:
    with pytest.raises(InvalidInput, match="is not a checkpoint's name"):
        place.files.save(name, a_file())


# Objects.


def test_what_the_cache_holds_is_not_downloaded_and_its_bound_is_kept(
    s3: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(objects.CACHE_VARIABLE, "2500")
    url = f"{s3.new_bucket()}/plan"
    files = CheckpointObjects(url, tmp_path / "cache")
    first, second, third = (
        files.save(checkpoint_name(1, step), a_file(bytes([step]) * 1000)) for step in (1, 2, 3)
    )
    cached = {path.name for path in (tmp_path / "cache").rglob("node-*")}
    assert cached == {Path(each.name).name for each in (second, third)}
    store = objects.opened(url)
    for checkpoint in (first, second):
        obstore.delete(store, checkpoint.name)
    assert content_of(files, second) == bytes([2]) * 1000
    with pytest.raises(CheckpointError, match="is missing"):
        content_of(files, first)
    files.local_path(third).write_bytes(b"damaged")
    assert content_of(files, third) == bytes([3]) * 1000, "the object is whole"


def test_an_upload_that_is_not_what_was_sent_does_not_count(s3: Server, tmp_path: Path) -> None:
    url = f"{s3.new_bucket()}/plan"
    files = CheckpointObjects(url, tmp_path)
    checkpoint = files.save(NAME, a_file(b"12345"))
    files._confirm(checkpoint)
    content = bytes(obstore.get(objects.opened(url), NAME).bytes())
    for other in (content[:-1], content[:-1] + b"x"):
        obstore.put(objects.opened(url), NAME, other)
        with pytest.raises(StorageUnavailable, match="is not what was uploaded"):
            files._confirm(checkpoint)


def test_a_store_that_cannot_be_used_says_what_to_do(
    s3: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = CheckpointObjects("s3://no-such-bucket/plan", tmp_path)
    assert nowhere.read_mark() is None
    with pytest.raises(StorageUnavailable, match="there is no such bucket; make it first"):
        nowhere.write_mark("mine")
    monkeypatch.setattr(objects, "RETRIES", {"max_retries": 1, "retry_timeout": timedelta(seconds=1)})
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    silent = CheckpointObjects("s3://bucket/plan", tmp_path)
    home = ObjectHome("s3://bucket", tmp_path)
    asks = (lambda: silent.save(NAME, a_file()), home.folders, partial(home.size, "plan"))
    for ask in (*asks, partial(home.retire, "plan")):
        with pytest.raises(StorageUnavailable, match="Check that the store can be reached"):
            ask()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# Homes.


def test_a_url_has_a_folder_of_its_own_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder, url = parse_home("s3://bucket/some/study/")
    assert url == "s3://bucket/some/study"
    assert folder.parent == tmp_path / "hippotune"
    assert folder.name.startswith("s3-bucket-some-study-")
    assert parse_home("s3://bucket/some/study") == (folder, url)
    assert parse_home("s3://bucket/some-study")[0] != folder
    assert isinstance(checkpoints_of(folder, "plan"), CheckpointFiles)
    write_url(folder, "memory:///a-home")
    assert checkpoints_of(folder, "plan").where == "memory:///a-home/checkpoints/plan"
    assert isinstance(storage_of(folder), ObjectHome)


@pytest.mark.parametrize("given", [".hippo", "/data/runs", "C:folder", "a:b/c", Path("runs")])
def test_a_folder_is_a_folder(given: str | Path) -> None:
    assert parse_home(given) == (Path(given), None)


def test_a_file_url_is_a_folder() -> None:
    assert parse_home("file:///data/my%20runs") == (Path("/data/my runs"), None)


@pytest.mark.parametrize(
    "given",
    ["ftp://host/study", "http://host/x", "s3:///study", "gcs://b/x", "file://host/x", "s3://b/x?y=1"],
)
def test_other_urls_are_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="expected a folder, or a URL such as s3://bucket/study"):
        parse_home(given)


def test_a_url_that_became_a_path_is_refused() -> None:
    with pytest.raises(InvalidInput, match="give it as text"):
        parse_home(Path("s3://bucket/study"))
