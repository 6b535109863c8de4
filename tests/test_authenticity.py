"""Studies whose stored checkpoints were tampered with, and where the key is not."""

from __future__ import annotations

import os
import pickle
import re
import sqlite3
import warnings
from pathlib import Path

import pytest

from hippotune import Config
from hippotune.cli.main import main
from hippotune.errors import StoreError
from hippotune.executors.base import Job
from hippotune.executors.shipping import pack
from hippotune.store.files import checkpoint_folder
from hippotune.store.secret import FILE_NAME
from processes import below
from stored import DECAYS, Asking, Falling, study, trained

STEPS = (4, 8)


def change(home: Path, statement: str) -> int:
    """Change the database as somebody would who can write to it, but has no key."""
    with sqlite3.connect(home / "plans.sqlite") as connection:
        changed = connection.execute(statement).rowcount
    connection.close()
    return changed


def forget_keyed_checks(home: Path) -> None:
    """Take from a home what versions that kept no check values of checkpoints did not have."""
    change(home, "UPDATE hippo_checkpoints SET keyed_check = NULL")
    change(home, "UPDATE hippo_plans SET keyed_by = NULL")
    for mark in home.glob("checkpoints/*/store.json"):
        mark.unlink()


def answers(home: Path) -> tuple[list[object], str, int]:
    """Train further on what is stored; return all that was measured, what was told, and the work."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        report = trained("decays", home, Asking(DECAYS, *STEPS))
    told = [each for each in told if each.category is RuntimeWarning]
    measured: list[object] = [(trial.config, trial.asked, dict(trial.metrics)) for trial in report.trials]
    model = report.best.load()
    assert isinstance(model, Falling)
    return (
        [*measured, report.best.step, model.height],
        "\n".join(str(each.message) for each in told),
        (report.work.steps_trained),
    )


def test_a_study_whose_rows_were_altered_trains_those_again_and_ends_with_the_same_answer(
    tmp_path: Path,
) -> None:
    expected, told, work = answers(tmp_path / "untouched")
    assert told == ""
    assert work > 0
    home = tmp_path / "home"
    trained("decays", home, Asking(DECAYS, 4))
    again = trained("decays", home, Asking(DECAYS, 4))
    assert again.work.steps_trained == 0
    altered = change(home, "UPDATE hippo_checkpoints SET checksum = 'abc'")
    assert altered > 0
    found, told, _ = answers(home)
    assert found == expected
    assert re.fullmatch(
        rf"{altered} checkpoints? cannot be used: not written by this plan's own workers .* "
        rf"the key file {home / FILE_NAME} was replaced\. The steps that depend on them are trained again",
        told,
    )
    assert answers(home) == (expected, "", 0)


def test_a_planted_checkpoint_is_removed_unread(tmp_path: Path) -> None:
    home = tmp_path / "home"
    report = trained("decays", home, Asking(DECAYS, 4))
    expected = report.best.metrics

    class Trap:
        def __reduce__(self) -> object:
            return os.mkdir, (str(tmp_path / "sprung"),)

    file = next(checkpoint_folder(home, study("decays", home).key).glob("*/node-0-step-*"))
    planted = file.with_name("node-0-step-3")
    planted.write_bytes(pickle.dumps(Trap()))
    assert change(
        home,
        "INSERT INTO hippo_checkpoints (plan, node, step, name, bytes, checksum, keyed_check) "
        f"SELECT plan, node, 3, '{planted.parent.name}/{planted.name}', {planted.stat().st_size}, 'abc', "
        "keyed_check FROM hippo_checkpoints WHERE node = 0 LIMIT 1",
    )
    with study("decays", home) as opened, pytest.warns(RuntimeWarning, match="^1 checkpoint cannot be used"):
        assert opened.eval(report.best.config, 4) == expected
    assert not planted.exists()
    assert not (tmp_path / "sprung").exists()


def test_without_its_key_a_study_is_refused_and_nothing_of_it_is_removed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    expected, _, _ = answers(home)
    files = set((home / "checkpoints").rglob("node-*"))
    away = (home / FILE_NAME).rename(tmp_path / "away")
    assert main(["show", "decays", "--home", str(home)]) == 0
    assert main(["ls", "--home", str(home)]) == 0
    with pytest.raises(StoreError, match=r"is missing: .*Put the right key back"):
        answers(home)
    assert not (home / FILE_NAME).exists()
    assert set((home / "checkpoints").rglob("node-*")) == files
    away.rename(home / FILE_NAME)
    assert answers(home) == (expected, "", 0)


def test_a_store_of_an_earlier_version_keeps_its_results_and_trains_its_checkpoints_again(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    expected, _, _ = answers(home)
    forget_keyed_checks(home)
    (home / FILE_NAME).unlink()
    found, told, _ = answers(home)
    assert found == expected
    assert "with this version of Hippo" in told


def test_the_key_reaches_no_worker(tmp_path: Path) -> None:
    with study("decays", tmp_path) as opened:
        opened.eval(Config(DECAYS[0]), 4)
        key = (tmp_path / FILE_NAME).read_bytes()
        workers = below()
        assert workers
        for worker in workers:
            folder = Path("/proc", str(worker.pid))
            for place in (folder / "environ", folder / "cmdline"):
                assert not holds(place.read_bytes(), key)
            assert not any(holds(piece, key) for piece in memory_of(folder))
        job = Job(opened.trainer, opened.settings, opened.seed, checkpoint_folder(tmp_path, opened.key))
        assert not holds(pickle.dumps(pack(job)), key)
    others = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != FILE_NAME]
    assert others
    assert not any(holds(path.read_bytes(), key) for path in others)


def holds(content: bytes, key: bytes) -> bool:
    return key in content or key.hex().encode() in content.lower()


def memory_of(folder: Path) -> list[bytes]:
    """Return what is in the memory that a process can write to."""
    pieces = []
    with (folder / "mem").open("rb", buffering=0) as memory:
        for line in (folder / "maps").read_text().splitlines():
            bounds, rights, *_ = line.split()
            first, last = (int(bound, 16) for bound in bounds.split("-"))
            if rights.startswith("rw") and last - first < 1 << 28:
                memory.seek(first)
                try:
                    pieces.append(memory.read(last - first))
                except OSError:  # reserved, but not there
                    continue
    assert sum(map(len, pieces)) > 1 << 20
    return pieces
