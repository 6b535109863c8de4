"""Checkpoint files are found whole or not at all, and say what is wrong with them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from examples import few_examples
from hippotune.errors import CheckpointError, InvalidInput
from hippotune.plan.facts import Checkpoint
from hippotune.store.digests import PIECE
from hippotune.store.files import CheckpointFiles, DiskFull, checkpoint_name

NAME = checkpoint_name(3, 10)


@pytest.fixture
def files(tmp_path: Path) -> CheckpointFiles:
    return CheckpointFiles(tmp_path / "checkpoints")


def a_file(content: bytes = b"state") -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        file.write(content)

    return write


def content_of(files: CheckpointFiles, checkpoint: Checkpoint) -> bytes:
    with files.read(checkpoint) as file:
        return file.read()


def everything_below(directory: Path) -> set[str]:
    return {path.name for path in directory.rglob("*") if path.is_file()}


def test_a_saved_file_is_found_again(files: CheckpointFiles) -> None:
    checkpoint = files.save(NAME, a_file(b"12345"))
    assert checkpoint.name == NAME
    assert checkpoint.bytes == files.verify(checkpoint).stat().st_size
    assert content_of(files, checkpoint) == b"12345"
    assert files.sweep({NAME}) == []


@pytest.mark.parametrize("length", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 17])
def test_content_of_any_length_comes_back_from_anywhere_in_it(files: CheckpointFiles, length: int) -> None:
    content = bytes(range(256)) * (length // 256) + bytes(length % 256)
    half = len(content) // 2

    def write(file: BinaryIO) -> None:
        file.write(content[:half])
        file.write(memoryview(content)[half:])

    checkpoint = files.save(NAME, write)
    with files.read(checkpoint) as file:
        assert file.seek(-min(5, length), os.SEEK_END) == length - min(5, length)
        assert file.read() == content[length - min(5, length) :]
        file.seek(half)
        assert file.read(1 << 30) == content[half:]
        file.seek(0)
        assert file.read() == content
        file.check()


def test_a_state_of_torch_is_read_back_through_the_check(files: CheckpointFiles) -> None:
    tensors = [torch.arange(n, dtype=torch.float64) for n in (0, 3, PIECE // 8, PIECE // 5)]
    checkpoint = files.save(NAME, lambda file: torch.save(tensors, file))
    with files.read(checkpoint) as file:
        loaded = torch.load(file, weights_only=True)  # type: ignore[arg-type]
    assert all(map(torch.equal, loaded, tensors))


@few_examples
@given(content=st.binary(max_size=200), other=st.binary(max_size=200))
def test_checksums_are_equal_exactly_where_contents_are(
    files: CheckpointFiles, content: bytes, other: bytes
) -> None:
    first = files.save(checkpoint_name(0, 1), a_file(content))
    second = files.save(checkpoint_name(0, 2), a_file(other))
    assert (first.checksum == second.checksum) == (content == other)


def test_saving_under_the_same_name_replaces_what_was_there(files: CheckpointFiles) -> None:
    stale = files.save(NAME, a_file(b"old"))
    fresh = files.save(NAME, a_file(b"new"))
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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_the_place_of_a_checkpoint_is_not_waited_for(files: CheckpointFiles) -> None:
    checkpoint = files.save(NAME, a_file())
    path = files.verify(checkpoint)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CheckpointError, match="it is no regular file"):
        files.verify(checkpoint)


def test_a_truncated_checkpoint_is_told_by_its_length(files: CheckpointFiles) -> None:
    checkpoint = files.save(NAME, a_file(b"12345"))
    os.truncate(files.verify(checkpoint), 3)
    with pytest.raises(CheckpointError, match=f"{NAME} is damaged: it has 3 bytes, 37 were written"):
        files.verify(checkpoint)


@pytest.mark.parametrize("place", [0, PIECE + 3, -1, -40])
def test_a_changed_byte_anywhere_is_told_before_anything_of_its_piece_is_read(
    files: CheckpointFiles, place: int
) -> None:
    checkpoint = files.save(NAME, a_file(bytes(PIECE + 100)))
    path = files.verify(checkpoint)
    with path.open("r+b") as file:
        file.seek(place, os.SEEK_END if place < 0 else os.SEEK_SET)
        file.write(b"\x01" if place != -1 else bytes([path.read_bytes()[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=f"{NAME} is damaged: its content is not what this plan's"):
        content_of(files, checkpoint)


def test_a_file_that_is_changed_while_it_is_read_gives_what_was_checked_or_nothing(
    files: CheckpointFiles,
) -> None:
    checkpoint = files.save(NAME, a_file(bytes(3 * PIECE)))
    path = files.verify(checkpoint)
    with files.read(checkpoint) as file:
        assert file.read(10) == bytes(10)
        with path.open("r+b") as other:
            other.write(b"\x01" * 3 * PIECE)
        assert file.read(10) == bytes(10)
        file.seek(PIECE)
        with pytest.raises(CheckpointError, match="damaged"):
            file.read(10)


def test_a_writer_that_raises_leaves_nothing_behind(files: CheckpointFiles) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"half way")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        files.save(NAME, write)
    assert everything_below(files.directory) == set()
    assert list(files.names()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_apart_and_leaves_nothing_behind(files: CheckpointFiles) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"some of it")
        Path("/dev/full").write_bytes(b"the rest")

    with pytest.raises(DiskFull, match=f"{NAME} cannot be written: the disk is full"):
        files.save(NAME, write)
    assert everything_below(files.directory) == set()


def test_a_full_disk_is_told_apart_behind_another_exception(files: CheckpointFiles) -> None:
    def write(file: BinaryIO) -> None:
        try:
            raise OSError(errno.EDQUOT, "quota exceeded")
        except OSError as error:
            raise RuntimeError("writing failed") from error

    with pytest.raises(DiskFull):
        files.save(NAME, write)


def test_deleting_may_be_repeated(files: CheckpointFiles) -> None:
    kept = files.save(checkpoint_name(0, 1), a_file())
    checkpoint = files.save(checkpoint_name(0, 2), a_file())
    files.delete(checkpoint)
    files.delete(checkpoint)
    assert list(files.names()) == [kept.name]
    assert files.sweep({kept.name}) == []


def test_sweeping_removes_what_is_unknown_or_temporary_and_says_so(files: CheckpointFiles) -> None:
    kept = files.save(checkpoint_name(0, 1), a_file())
    unknown = files.save(checkpoint_name(0, 2), a_file())
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
        "def write(file):\n"
        "    file.write(b'half')\n"
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
