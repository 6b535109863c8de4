"""`hippo doctor`, `hippo backup`, and looking at a home that may not be written to."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hippotune.cli.main import main
from hippotune.errors import StoreError
from hippotune.store.secret import FILE_NAME
from stored import DECAYS, Asking, study, trained

STEPS = (4, 8)
Run = Callable[..., str]


@pytest.fixture(scope="module")
def trained_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("trained") / "home"
    trained("decays", home, Asking(DECAYS, *STEPS))
    return home


@pytest.fixture
def home(trained_home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_home, tmp_path / "home"))


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on the home; return what it prints."""

    def run(*arguments: str, status: int = 0) -> str:
        assert main([*arguments, "--home", str(home)]) == status
        captured = capsys.readouterr()
        return captured.out + captured.err

    return run


def change(home: Path, statement: str) -> None:
    with sqlite3.connect(home / "plans.sqlite") as connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()


def change_schema(home: Path, statement: str) -> None:
    with sqlite3.connect(home / "plans.sqlite") as connection:
        connection.execute(statement)
    connection.close()


def files(home: Path) -> list[Path]:
    return sorted(home.glob("checkpoints/*/*/node-*"))


# hippo doctor


def test_doctor_finds_nothing_wrong_with_what_was_written(run: Run) -> None:
    assert re.fullmatch(r"examined \d+ facts and \d+ checkpoints: nothing is wrong\n", run("doctor"))


def test_doctor_names_checkpoints_that_are_damaged_or_missing_and_repairs_by_forgetting_them(
    run: Run, home: Path
) -> None:
    damaged, missing, *others = files(home)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    missing.unlink()
    for _ in range(2):
        told = run("doctor", status=1)
        assert f"{damaged} is damaged" in told
        assert f"{missing} is missing" in told
        assert told.endswith(": 2 problems, 2 left\n")
    assert run("doctor", "--repair").endswith(": 2 problems, 0 left\n")
    assert files(home) == others
    assert run("doctor").endswith("nothing is wrong\n")
    again = trained("decays", home, Asking(DECAYS, *STEPS))
    assert again.work.steps_requested > 0


@pytest.mark.parametrize("table", ["results", "requests", "spans", "logged"])
def test_doctor_removes_facts_that_were_changed_and_they_are_measured_again(
    run: Run, home: Path, table: str
) -> None:
    expected = trained("decays", home, Asking(DECAYS, *STEPS))
    column = {
        "results": "metrics = replace(metrics, '0', '1')",
        "requests": "trial = 7",
        "spans": "ended = 1.5",
    }
    change(home, f"UPDATE hippo_{table} SET {column.get(table, 'last_step = 77')}")
    if table == "results":
        for command in (["show", "decays"], ["export", "decays"]):
            assert "is not what was written" in run(*command, status=2)
        with pytest.raises(StoreError, match="hippo doctor"):
            trained("decays", home, Asking(DECAYS, *STEPS))
    assert f"a row of hippo_{table} is not what was written" in run("doctor", status=1)
    assert ", 0 left" in run("doctor", "--repair")
    assert "nothing is wrong" in run("doctor")
    again = trained("decays", home, Asking(DECAYS, *STEPS))
    assert [trial.metrics for trial in again.trials] == [trial.metrics for trial in expected.trials]


def test_doctor_says_that_a_damaged_tree_needs_a_backup_and_leaves_it(run: Run, home: Path) -> None:
    change(home, "UPDATE hippo_nodes SET start = start + 1")
    for options in ([], ["--repair"]):
        told = run("doctor", *options, status=1)
        assert "a row of hippo_nodes is not what was written" in told
        assert "put a backup of the database back" in told


@pytest.mark.parametrize(
    ("table", "end"),
    [("nodes", "min"), ("nodes", "max"), ("configs", "min"), ("configs", "max"), ("sequences", "min")],
)
def test_doctor_counts_rows_of_the_tree_that_are_missing(run: Run, home: Path, table: str, end: str) -> None:
    key = "node" if table == "nodes" else "id"
    change(home, f"DELETE FROM hippo_{table} WHERE {key} = (SELECT {end}({key}) FROM hippo_{table})")
    assert f"1 row of hippo_{table} missing" in run("doctor", status=1)
    if end == "min":
        with pytest.raises(StoreError, match=f"rows of hippo_{table} are missing"):
            study("decays", home).open()


@pytest.mark.parametrize("table", ["results", "kept", "spans", "requests", "actions"])
def test_doctor_counts_facts_that_are_missing_until_they_are_given_up(
    run: Run, home: Path, table: str
) -> None:
    expected = trained("decays", home, Asking(DECAYS, *STEPS))
    change(home, f"DELETE FROM hippo_{table} WHERE number = (SELECT min(number) FROM hippo_{table})")
    for _ in range(2):
        assert "1 fact missing; put a backup of the database back, or give it up" in run("doctor", status=1)
    assert ", 0 left" in run("doctor", "--repair")
    assert "nothing is wrong" in run("doctor")
    again = trained("decays", home, Asking(DECAYS, *STEPS))
    assert [trial.metrics for trial in again.trials] == [trial.metrics for trial in expected.trials]
    assert "nothing is wrong" in run("doctor")


@pytest.mark.parametrize("changed", ["substr(origin, 2)", "replace(origin, '1', '2')"])
def test_doctor_tells_that_the_beginning_of_a_plan_was_changed(run: Run, home: Path, changed: str) -> None:
    change(home, f"UPDATE hippo_plans SET origin = {changed}")
    assert "was begun with is not what was written" in run("doctor", status=1)
    with pytest.raises(StoreError, match="was begun with is not what was written"):
        study("decays", home).open()


@pytest.mark.parametrize("changed", ["mode = 'max'", "metric = 'weight'", "used = used + 1"])
def test_what_a_study_was_tuned_for_is_noticed_if_it_was_changed_and_told_again(
    run: Run, home: Path, changed: str
) -> None:
    report = trained("decays", home, Asking(DECAYS, *STEPS))
    change(home, f"UPDATE hippo_studies SET {changed}")
    for command in (["ls"], ["show", "decays"]):
        assert "study 'decays' is not what was written" in run(*command, status=2)
    with pytest.raises(StoreError, match="study 'decays' is not what was written"):
        study("decays", home).open()
    assert "study 'decays' is not what was written" in run("doctor", status=1)
    assert ", 0 left" in run("doctor", "--repair")
    assert "nothing is wrong" in run("doctor")
    again = trained("decays", home, Asking(DECAYS, *STEPS))
    assert again.best.config == report.best.config
    assert f"best by {report.metric} ({report.mode})" in run("show", "decays")


def test_a_store_of_the_version_before_check_values_of_studies_opens(run: Run, home: Path) -> None:
    for column in ("hippo_plans DROP COLUMN given_up", "hippo_plans DROP COLUMN check_value"):
        change_schema(home, f"ALTER TABLE {column}")
    change_schema(home, "ALTER TABLE hippo_studies DROP COLUMN check_value")
    change(home, "UPDATE hippo_schema SET version = 12")
    assert "nothing is wrong" in run("doctor")
    trained("decays", home, Asking(DECAYS, *STEPS))
    change(home, "UPDATE hippo_studies SET mode = 'max'")
    assert "study 'decays' is not what was written" in run("doctor", status=1)


@pytest.mark.parametrize(("lost", "status"), [("DROP TABLE hippo_spans", 2), ("DELETE FROM hippo_store", 1)])
def test_doctor_says_that_what_every_store_has_is_missing(
    run: Run, home: Path, lost: str, status: int
) -> None:
    change_schema(home, lost)
    assert "what every store has is missing: put a backup of the database back" in run(
        "doctor", status=status
    )


def test_doctor_says_that_a_database_is_gone_whose_checkpoints_are_there(run: Run, home: Path) -> None:
    for file in home.glob("plans.sqlite*"):
        file.unlink()
    assert "but there are checkpoints: put a backup of plans.sqlite back" in run("doctor", status=2)


def test_doctor_notices_a_changed_key_of_a_plan_and_rows_of_no_plan(run: Run, home: Path) -> None:
    change(home, "UPDATE hippo_spans SET plan = 9 WHERE number = (SELECT min(number) FROM hippo_spans)")
    assert "1 rows of hippo_spans belong to no plan" in run("doctor", status=1)
    assert ", 0 left" in run("doctor", "--repair")
    change(home, "UPDATE hippo_plans SET seed = '7'")
    assert "what it is known by" in run("doctor", "--repair", status=1)


def test_doctor_gives_up_checkpoints_whose_key_is_lost_and_keeps_their_files(run: Run, home: Path) -> None:
    there = {file.name for file in files(home)}
    (home / FILE_NAME).unlink()
    with pytest.raises(StoreError, match="hippo doctor --repair"):
        study("decays", home).open()
    assert "is missing: it cannot be checked that they are the plan's own" in run("doctor", status=1)
    assert "checkpoints is lost; they were given up" in run("doctor", "--repair")
    assert {file.name for file in files(home)} == there
    assert trained("decays", home, Asking(DECAYS, *STEPS)).best.step == 8
    assert run("doctor").endswith("nothing is wrong\n")


def test_doctor_tells_a_damaged_database_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / "plans.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = bytearray(file.read_bytes())
    content[4096 * 6 : 4096 * 12] = bytes(4096 * 6)
    file.write_bytes(content)
    assert main(["doctor", "--home", str(home)]) in (1, 2)  # where it cannot be opened at all, 2
    told = capsys.readouterr()
    assert re.search(r"(malformed|Page|page|Tree).*put a backup", told.out + told.err)


def test_doctor_leaves_a_plan_alone_that_is_being_trained_on(run: Run, home: Path) -> None:
    with study("decays", home):
        assert "nothing is wrong" in run("doctor")
        said = run("doctor", "--repair")
    assert "not examined; the plan" in said
    assert "is in use by this very process" in said
    assert said.endswith(": nothing is wrong; 1 plan in use, not examined\n")


# hippo backup


def test_a_backup_is_made_while_a_study_is_open_and_put_back_it_sets_aside_what_came_after(
    run: Run, home: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    with study("decays", home) as opened:
        assert f"1 plan in {backup}" in run("backup", str(backup))
        opened.load({"lr": 0.5, "scale": 0.25}, 3)
    known = {file.name for file in files(home)}
    assert run("backup", str(backup)).startswith("1 plan")  # replaced
    with study("decays", home) as opened:
        opened.load({"lr": 0.5, "scale": 0.125}, 3)
    later = {file.name for file in files(home)} - known
    assert later
    for file in home.glob("plans.sqlite*"):
        file.unlink()
    shutil.copy(backup, home / "plans.sqlite")
    with pytest.warns(RuntimeWarning, match="the database is older than this plan's checkpoints"):
        again = trained("decays", home, Asking(DECAYS, *STEPS))
    assert again.work.steps_trained == 0
    aside = {file.name for file in home.glob("checkpoints/*.unknown-*/*/node-*")}
    assert aside == later
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "home"]


def test_a_backup_replaces_nothing_but_backups(run: Run, home: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    assert "is no backup, and is not replaced" in run("backup", str(mine), status=2)
    assert "is the store itself" in run("backup", str(home / "plans.sqlite"), status=2)
    assert "expected the name of a file" in run("backup", str(tmp_path), status=2)
    nowhere = tmp_path / "nowhere" / "backup"
    assert f"{nowhere} is in no folder that exists" in run("backup", str(nowhere), status=2)
    assert mine.read_text() == "mine"


# Homes that may not be written to.

FILE = """
import hippotune as hippo
from stored import study as stored

study = stored("decays", {home!r})
tuner = hippo.GridSearch({{"lr": [0.5, 0.25]}}, metric="height", mode="min", max_steps=4)
"""

LOOK = """
import ctypes, os, sys
from hippotune.cli.main import main
if os.geteuid() == 0 and os.access(sys.argv[1], os.W_OK):  # root gives up the right to write anywhere
    for capability in (1, 2):
        assert ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) == 0
    os.execv(sys.executable, sys.orig_argv)
assert not os.access(sys.argv[1], os.W_OK)
for command in (["ls"], ["show", "decays"], ["export", "decays"], ["doctor"]):
    status = main([*command, "--home", sys.argv[1]])
    assert status == 0, command
assert main(["plan", sys.argv[2]]) == 0
"""


@pytest.mark.parametrize("log", ["none", "left by a killed process", "in use"])
def test_reading_commands_work_on_a_home_that_may_not_be_written_to(
    home: Path, tmp_path: Path, log: str
) -> None:
    writer = sqlite3.connect(home / "plans.sqlite")
    if log != "none":
        writer.execute("PRAGMA wal_autocheckpoint=0")
        writer.execute("UPDATE hippo_studies SET metric = 'height', mode = 'min'")
        writer.commit()
    if log == "left by a killed process":
        shutil.copytree(home, tmp_path / "copy")
        (tmp_path / "copy" / "plans.sqlite-shm").unlink()
        home = tmp_path / "copy"
    before = sorted(home.rglob("*"))
    home.chmod(0o555)
    file = tmp_path / "decays.py"
    file.write_text(FILE.format(home=str(home)))
    command = [sys.executable, "-c", LOOK, str(home), str(file)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    after = sorted(home.rglob("*"))
    home.chmod(0o755)
    writer.close()
    assert done.returncode == 0, done.stderr
    assert "decays" in done.stdout
    if log != "none":
        assert "height" in done.stdout.splitlines()[1]
    assert after == before
