"""Checkpoint files are found whole or not at all, and say what is wrong with them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hippotune.errors import CheckpointError, InvalidInput
from hippotune.plan.facts import Checkpoint
from hippotune.store.files import CheckpointFiles, DiskFull, checkpoint_name

NAME = checkpoint_name(3, 10)


@pytest.fixture
def files(tmp_path: Path) -> CheckpointFiles:
    return CheckpointFiles(tmp_path / "checkpoints")


def a_file(content: bytes = b"state") -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)

    return write


def a_folder(**contents: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        (path / "inner").mkdir(parents=True)
        for name, content in contents.items():
            (path / "inner" / name).write_bytes(content)

    return write


def everything_below(directory: Path) -> set[str]:
    return {path.name for path in directory.rglob("*") if path.is_file()}


def test_a_saved_file_is_found_again_with_its_length(files: CheckpointFiles) -> None:
    checkpoint = files.save(NAME, a_file(b"12345"))
    assert checkpoint.name == NAME
    assert checkpoint.bytes == 5
    assert files.verify(checkpoint).read_bytes() == b"12345"


def test_known_content_is_saved_like_a_file_that_holds_it(files: CheckpointFiles) -> None:
    pieces = [memoryview(b"12"), memoryview(b""), memoryview(b"345")]
    checkpoint = files.save_content(NAME, pieces)
    assert checkpoint == files.save(NAME, a_file(b"12345"))
    assert files.verify(checkpoint).read_bytes() == b"12345"
    assert files.sweep({NAME}) == []


def test_a_saved_folder_is_found_again_with_the_length_of_its_files(files: CheckpointFiles) -> None:
    checkpoint = files.save(NAME, a_folder(weights=b"123", moments=b"45"))
    assert checkpoint.bytes == 5
    assert (files.verify(checkpoint) / "inner" / "weights").read_bytes() == b"123"


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), other=st.binary(max_size=200))
def test_checksums_are_equal_exactly_where_contents_are(
    files: CheckpointFiles, content: bytes, other: bytes
) -> None:
    first = files.save(checkpoint_name(0, 1), a_file(content))
    second = files.save(checkpoint_name(0, 2), a_file(other))
    assert (first.checksum == second.checksum) == (content == other)


def test_the_checksum_of_a_folder_covers_names_and_where_contents_end(files: CheckpointFiles) -> None:
    folders = [
        a_folder(a=b"xy", b=b"z"),
        a_folder(a=b"x", b=b"yz"),
        a_folder(a=b"xy", c=b"z"),
        a_folder(ab=b"xyz"),
        a_folder(),
    ]
    checksums = [files.save(checkpoint_name(0, step), folder).checksum for step, folder in enumerate(folders)]
    assert len(set(checksums)) == len(folders)


def test_the_checksum_of_a_folder_does_not_depend_on_the_order_of_writing(files: CheckpointFiles) -> None:
    first = files.save(checkpoint_name(0, 1), a_folder(a=b"x", b=b"y"))
    second = files.save(checkpoint_name(0, 2), a_folder(b=b"y", a=b"x"))
    assert first.checksum == second.checksum


@pytest.mark.parametrize("old", [a_file(b"old"), a_folder(old=b"old")])
@pytest.mark.parametrize("new", [a_file(b"new"), a_folder(new=b"new")])
def test_saving_under_the_same_name_replaces_whatever_was_there(
    files: CheckpointFiles, old: Callable[[Path], None], new: Callable[[Path], None]
) -> None:
    stale = files.save(NAME, old)
    fresh = files.save(NAME, new)
    files.verify(fresh)
    with pytest.raises(CheckpointError, match="damaged"):
        files.verify(stale)
    assert list(files.names()) == [NAME]
    assert files.sweep({NAME}) == []


def test_a_missing_checkpoint_is_named(files: CheckpointFiles) -> None:
    checkpoint = files.save(NAME, a_file())
    files.verify(checkpoint).unlink()
    with pytest.raises(CheckpointError, match=f"{NAME} is missing"):
        files.verify(checkpoint)


def test_a_truncated_checkpoint_is_told_by_its_length(files: CheckpointFiles) -> None:
    checkpoint = files.save(NAME, a_file(b"12345"))
    os.truncate(files.verify(checkpoint), 3)
    with pytest.raises(CheckpointError, match=f"{NAME} is damaged: it has 3 bytes, 5 were written"):
        files.verify(checkpoint)


def test_a_flipped_byte_is_told_by_the_checksum(files: CheckpointFiles) -> None:
    checkpoint = files.save(NAME, a_folder(a=b"abc"))
    (files.verify(checkpoint) / "inner" / "a").write_bytes(b"abd")
    with pytest.raises(CheckpointError, match=f"{NAME} is damaged: its contents"):
        files.verify(checkpoint)


def test_a_writer_that_raises_leaves_nothing_behind(files: CheckpointFiles) -> None:
    def write(path: Path) -> None:
        a_folder(half=b"way")(path)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        files.save(NAME, write)
    assert everything_below(files.directory) == set()
    assert list(files.names()) == []


def test_a_writer_that_writes_nothing_is_an_error(files: CheckpointFiles) -> None:
    with pytest.raises(CheckpointError, match="wrote nothing"):
        files.save(NAME, lambda path: None)


def test_a_writer_that_appends_an_ending_is_told_so_and_leaves_nothing_behind(files: CheckpointFiles) -> None:
    def write(path: Path) -> None:
        path.with_name(path.name + ".npz").write_bytes(b"state")

    with pytest.raises(CheckpointError, match=r"it wrote .*\.npz\. Where a library appends an ending"):
        files.save(NAME, write)
    assert everything_below(files.directory) == set()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_apart_and_leaves_nothing_behind(files: CheckpointFiles) -> None:
    def write(path: Path) -> None:
        path.write_bytes(b"some of it")
        Path("/dev/full").write_bytes(b"the rest")

    with pytest.raises(DiskFull, match=f"{NAME} cannot be written: the disk is full"):
        files.save(NAME, write)
    assert everything_below(files.directory) == set()


def test_a_full_disk_is_told_apart_behind_another_exception(files: CheckpointFiles) -> None:
    def write(path: Path) -> None:
        try:
            raise OSError(errno.EDQUOT, "quota exceeded")
        except OSError as error:
            raise RuntimeError("writing failed") from error

    with pytest.raises(DiskFull):
        files.save(NAME, write)


def test_deleting_removes_files_and_folders_and_may_be_repeated(files: CheckpointFiles) -> None:
    kept = files.save(checkpoint_name(0, 1), a_file())
    for step, writer in [(2, a_file()), (3, a_folder(a=b"x"))]:
        checkpoint = files.save(checkpoint_name(0, step), writer)
        files.delete(checkpoint)
        files.delete(checkpoint)
    assert list(files.names()) == [kept.name]
    assert files.sweep({kept.name}) == []


def test_sweeping_removes_what_is_unknown_or_temporary_and_says_so(files: CheckpointFiles) -> None:
    kept = files.save(checkpoint_name(0, 1), a_file())
    unknown = files.save(checkpoint_name(0, 2), a_folder(a=b"x"))
    temporary = files.directory / f"{kept.name}.0123abcd.partial"
    temporary.mkdir()
    bystander = files.directory / "README"
    bystander.write_text("not a checkpoint")
    assert files.sweep({kept.name}) == sorted([unknown.name, f"{kept.name}.0123abcd.partial"])
    assert list(files.names()) == [kept.name]
    assert bystander.exists()
    files.verify(kept)


def test_a_directory_that_does_not_exist_yet_holds_nothing(files: CheckpointFiles) -> None:
    assert list(files.names()) == []
    assert files.sweep(set()) == []


def test_a_process_killed_while_writing_leaves_only_temporary_files(files: CheckpointFiles) -> None:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from hippotune.store.files import CheckpointFiles\n"
        "def write(path):\n"
        "    path.write_bytes(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"CheckpointFiles(Path(sys.argv[1])).save({NAME!r}, write)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program, files.directory], env=environment, check=False)
    assert list(files.names()) == []
    [swept] = files.sweep(set())
    assert swept.startswith(NAME)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), unique=True))
def test_names_are_distinct(positions: list[tuple[int, int]]) -> None:
    assert len({checkpoint_name(node, step) for node, step in positions}) == len(positions)


@pytest.mark.parametrize(
    "positions",
    [[(node, 1000) for node in range(100_000)], [(7, 1000 * step) for step in range(100_000)]],
    ids=["many nodes", "many steps"],
)
def test_names_are_spread_over_folders(positions: list[tuple[int, int]]) -> None:
    folders = Counter(checkpoint_name(*position).split("/")[0] for position in positions)
    assert max(folders.values()) < 2000


@pytest.mark.parametrize(
    "name", ["", "state", "../state", "ab/..", "ab/c/d", "/etc/passwd", f"{NAME}.partial"]
)
def test_names_that_lead_elsewhere_are_refused(files: CheckpointFiles, name: str) -> None:
    with pytest.raises(InvalidInput, match="not a checkpoint's name"):
        files.delete(Checkpoint(name, 0, ""))
