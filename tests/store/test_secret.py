"""The store's key file, and what a keyed check covers."""

from __future__ import annotations

import os
import pickle
import stat
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.errors import StoreError
from hippotune.plan.facts import Checkpoint, Position
from hippotune.store.secret import FILE_NAME, Secret
from store.programs import running

AT = Position(3, 7)
CHECKPOINT = Checkpoint("00/node-3-step-7", 10, "abc")
fields = st.tuples(st.text(), st.integers(0), st.integers(0), st.text(), st.integers(0), st.text())


def check(secret: Secret, plan: str, node: int, step: int, name: str, size: int, digest: str) -> str:
    return secret.check_of(plan, Position(node, step), Checkpoint(name, size, digest))


def test_a_key_is_made_once_of_32_bytes_that_only_its_owner_can_read(home: Path) -> None:
    previous = os.umask(0)
    try:
        first = Secret.of(home)
    finally:
        os.umask(previous)
    file = home / FILE_NAME
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(file.read_bytes()) == 32
    assert Secret.of(home).check_of("plan", AT, CHECKPOINT) == first.check_of("plan", AT, CHECKPOINT)
    assert os.listdir(home) == [FILE_NAME]


def test_what_a_process_leaves_that_is_killed_while_it_makes_a_key_is_removed(home: Path) -> None:
    home.mkdir()
    (home / f"{FILE_NAME}.0123456789abcdef.partial").write_bytes(bytes(32))
    Secret.of(home)
    assert os.listdir(home) == [FILE_NAME]


def test_homes_have_different_keys(tmp_path: Path) -> None:
    one, other = (Secret.of(tmp_path / name).check_of("plan", AT, CHECKPOINT) for name in "ab")
    assert one != other


def test_processes_that_start_at_once_get_the_same_key(home: Path) -> None:
    for _ in range(2):
        with ExitStack() as stack:
            processes = [stack.enter_context(running("seal", home, None)) for _ in range(3)]
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            for process in processes:
                assert process.stdin is not None
                process.stdin.close()
            said = {process.stdout.readline() for process in processes if process.stdout is not None}
        assert len(said) == 1
        assert said != {""}
        assert os.listdir(home) == [FILE_NAME]
        (home / FILE_NAME).unlink()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o620])
def test_a_key_that_others_can_read_or_change_is_refused_with_the_remedy(home: Path, mode: int) -> None:
    Secret.of(home)
    (home / FILE_NAME).chmod(mode)
    with pytest.raises(StoreError, match=rf"has mode {mode:04o}.*expected 0600. Run chmod 600 {home}"):
        Secret.of(home)
    assert Secret.found(home) is None
    (home / FILE_NAME).chmod(0o400)
    Secret.of(home)


@pytest.mark.parametrize("content", [b"", bytes(31), bytes(33)])
def test_a_file_that_is_no_key_is_refused_and_left_alone(home: Path, content: bytes) -> None:
    home.mkdir()
    file = home / FILE_NAME
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(StoreError, match="is no key file: expected a file of 32 bytes"):
        Secret.of(home)
    assert file.read_bytes() == content


def test_a_link_a_pipe_or_a_folder_in_place_of_the_key_is_refused(home: Path, tmp_path: Path) -> None:
    Secret.of(tmp_path / "elsewhere")
    home.mkdir()
    file = home / FILE_NAME
    file.symlink_to(tmp_path / "elsewhere" / FILE_NAME)
    with pytest.raises(StoreError, match="it is a link"):
        Secret.of(home)
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(StoreError, match="no key file"):
        Secret.of(home)
    file.unlink()
    file.mkdir(0o700)
    with pytest.raises(StoreError, match="no key file"):
        Secret.of(home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")
def test_a_key_of_another_user_is_refused(home: Path) -> None:
    Secret.of(home)
    os.chown(home / FILE_NAME, 12345, -1)
    with pytest.raises(StoreError, match="belongs to user 12345"):
        Secret.of(home)


def test_a_home_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="key cannot be"):
        Secret.of(tmp_path / "file" / "home")


def test_looking_makes_no_key(home: Path) -> None:
    assert Secret.found(home) is None
    assert not home.exists()


def test_a_key_is_neither_printed_nor_pickled(home: Path) -> None:
    secret = Secret.of(home)
    content = (home / FILE_NAME).read_bytes()
    assert content.hex() not in repr(secret)
    assert repr(content) not in repr(secret)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(secret)
    with ProcessPoolExecutor(1) as pool, pytest.raises(TypeError, match="cannot be pickled"):
        pool.submit(repr, secret).result()


@given(fields, fields)
def test_different_checkpoints_have_different_checks(one: Any, other: Any) -> None:
    secret = Secret(bytes(32), Path("key"))
    assert (check(secret, *one) == check(secret, *other)) == (one == other)


@given(st.text(), st.text())
def test_moving_text_from_one_field_to_the_next_changes_the_check(left: str, right: str) -> None:
    secret = Secret(bytes(32), Path("key"))
    whole = replace(CHECKPOINT, name=left + right, checksum="")
    parted = replace(CHECKPOINT, name=left, checksum=right)
    assert (secret.check_of("p", AT, whole) == secret.check_of("p", AT, parted)) == (right == "")


@pytest.mark.parametrize("given_check", [None, "", "é", b"x", 7, "0" * 64])
def test_a_check_of_any_other_kind_is_refused(given_check: object) -> None:
    assert not Secret(bytes(32), Path("key")).accepts(given_check, "plan", AT, CHECKPOINT)


def test_a_row_of_any_other_kind_is_refused() -> None:
    secret = Secret(bytes(32), Path("key"))
    strange: Any = Checkpoint(b"name", 10, "abc")  # type: ignore[arg-type]
    assert not secret.accepts(secret.check_of("plan", AT, CHECKPOINT), "plan", AT, strange)
