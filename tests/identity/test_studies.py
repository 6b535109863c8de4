"""Old results never answer for what has changed: real studies, real processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from forked import Interpreter
from hippotune import GridSearch, Local, Study
from hippotune.cli.main import main
from hippotune.errors import InvalidInput, StoreError, TrainerError
from hippotune.identity.data import data_text
from hippotune.store.catalog import open_store, seal_plan
from hippotune.store.database import Database
from identity import walkers
from identity.cells import Cell

SCRIPT = """
import argparse
import json
import os
import sys
from pathlib import Path

import hippotune as hippo

parser = argparse.ArgumentParser()
parser.add_argument("--scale", type=float, default=1)
parser.add_argument("--note", default="")
args = parser.parse_args()


class Walker(hippo.Trainer):
    def build(self):
        self.at = 0.0

    def setup(self, hp):
        self.lr = hp.get("lr", getattr(self, "lr", 0.0))

    def train(self):
        self.at += self.lr * args.scale * float(os.environ.get("FACTOR", "1"))

    def evaluate(self):
        return {"at": self.at}

    def save(self, path):
        path.write_text(json.dumps([self.at, self.lr]))

    def load(self, path):
        self.at, self.lr = json.loads(path.read_text())


study = hippo.Study("walk", Walker, executor=hippo.Local(workers=1))
tuner = hippo.GridSearch(hippo.Grid({"lr": [0.5]}), "at", "max", max_steps=2)

if __name__ == "__main__":
    report = study.tune(tuner, progress=False)
    print(json.dumps([report.best.metrics["at"], report.work.steps_trained]))
    study.close()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walk.py").write_text(SCRIPT)
    return tmp_path


def test_other_arguments_and_variables_give_other_results(
    folder: Path, forking: Interpreter, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str, **variables: str) -> tuple[float, int]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
        done = forking.run("walk.py", *arguments, cwd=folder, env=environment)
        assert done.returncode == 0, done.stderr
        at, trained = json.loads(done.stdout)
        return at, trained

    assert run("--scale", "1") == (1.0, 2)
    assert run("--scale", "10") == (10.0, 2)
    assert run("--scale", "10", "--note", "which nothing reads") == (10.0, 0)
    assert run("--scale", "10", FACTOR="2") == (20.0, 2)
    assert run("--scale", "1") == (1.0, 0)
    main(["show", "walk"])
    shown = capsys.readouterr().out
    assert "args.scale: 10.0 -> 1.0" in shown
    assert "$FACTOR: '2' -> None" in shown


NOTEBOOK = """
import hippotune as hippo
from identity import walkers
SCALE = 1.0
class Digits(walkers.Walker):
    def train(self):
        self.at += self.lr * SCALE
"""


def walk(home: Path, **more: Any) -> Study:
    given: dict[str, Any] = {"executor": Local(workers=1), **more}
    return Study("walk", walkers.Walker, home=home, **given)


def plans(home: Path) -> int:
    with open_store(home, create=False) as catalog:
        return len(catalog.plans())


def test_a_global_that_changed_in_a_notebook_gives_new_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = Cell(NOTEBOOK)
    tuner = GridSearch({"lr": [0.5]}, metric="at", mode="max", max_steps=2)
    with Study("walk", cell.trainer, home=tmp_path, executor=Local(workers=1)) as study:
        assert study.tune(tuner, progress=False).best.metrics["at"] == 1.0
        cell.names["SCALE"] = 10.0
        report = study.tune(tuner, progress=True)
        assert report.best.metrics["at"] == 10.0
        assert "changed (SCALE: 1.0 -> 10.0) since study 'walk' last ran: a new plan begins" in (
            capsys.readouterr().err
        )
        assert asyncio.run(study.train([({"lr": 0.5}, 2)]))[0].metrics == report.best.metrics
        cell.names["SCALE"] = 1.0
        assert study.eval({"lr": 0.5}, 2)["at"] == 1.0
    assert plans(tmp_path) == 2


def test_a_global_that_workers_would_not_find_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walkers, "SCALE", 10.0)
    with walk(tmp_path) as study, pytest.raises(TrainerError, match=r"SCALE: 10.0 -> 1.0.*settings="):
        study.eval({"lr": 0.5}, 2)


def ten_times() -> float:
    return 10.0


def no_metrics(self: walkers.Walker) -> dict[str, float]:
    return {"at": 0.0}


@pytest.mark.parametrize(
    ("owner", "name", "value", "change"),
    [
        (walkers, "factor", ten_times, r"factor \(is\): .*ten_times -> .*factor"),
        (
            walkers.Walker,
            "evaluate",
            no_metrics,
            r"Walker.evaluate \(is\): .*no_metrics -> .*Walker.evaluate",
        ),
    ],
)
def test_a_function_that_was_put_in_place_of_another_after_the_import_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, value: object, change: str
) -> None:
    monkeypatch.setattr(owner, name, value)
    with walk(tmp_path) as study, pytest.raises(TrainerError, match=change):
        study.eval({"lr": 0.5}, 2)


LOOKS = """
from identity import walkers
class Digits(walkers.Walker):
    def train(self):
        self.at += self.lr * getattr(walkers, "SMOOTHING", 1.0)
"""


def test_a_name_that_a_script_adds_to_an_imported_module_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Study("walk", Cell(LOOKS).trainer, home=tmp_path, executor=Local(workers=1)) as study:
        assert study.eval({"lr": 0.5}, 2)["at"] == 1.0
    monkeypatch.setattr(walkers, "SMOOTHING", 5.0, raising=False)
    study = Study("walk", Cell(LOOKS).trainer, home=tmp_path, executor=Local(workers=1))
    with study, pytest.raises(TrainerError, match=r"identity\.walkers\.SMOOTHING: gone"):
        study.eval({"lr": 0.5}, 2)


def test_settings_that_are_changed_between_two_calls_give_new_results(tmp_path: Path) -> None:
    with walk(tmp_path) as study:
        assert study.eval({"lr": 0.5}, 2)["at"] == 1.0
        study.settings["bias"] = 1.0
        assert study.eval({"lr": 0.5}, 2)["at"] == 3.0


def test_data_counts_by_its_content(tmp_path: Path) -> None:
    folder, home = tmp_path / "data", tmp_path / "home"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "a.csv").write_text("1")
    os.utime(folder / "inner" / "a.csv", (1, 1))
    with walk(home, data=folder) as study:
        assert study.eval({"lr": 0.5}, 2)["at"] == 1.0
    before = walk(home, data=str(folder)).key
    shutil.copytree(folder, tmp_path / "copy")
    assert walk(home, data=tmp_path / "copy").key == before
    (folder / "inner" / "a.csv").write_text("2")
    assert walk(home, data=folder).key != before
    (tmp_path / "copy" / "inner" / "a.csv").rename(tmp_path / "copy" / "a.csv")
    assert walk(home, data=tmp_path / "copy").key != before
    assert walk(home, data=tmp_path / "copy" / "a.csv").key.data.startswith("file ")
    assert plans(home) == 1


def test_what_is_remembered_of_data_is_not_read_again(tmp_path: Path) -> None:
    file, home = tmp_path / "data.bin", tmp_path / "home"
    file.write_bytes(b"1")
    os.utime(file, (1, 1))
    text = data_text(file, home, remember=True)
    remembered = json.loads((home / "data-digests.json").read_text())
    assert remembered[str(file.resolve())][:2] == [1, 10**9]
    assert text == f"file {remembered[str(file.resolve())][3]}"
    file.write_bytes(b"2")
    assert data_text(file, home) != text


@pytest.mark.parametrize("data", ["https://host/data.tar", "v2", "mnist@3"])
def test_urls_and_versions_of_data_count_by_their_text(tmp_path: Path, data: str) -> None:
    assert walk(tmp_path, data=data).key.data == f"name {data}"
    assert walk(tmp_path, data=data).key != walk(tmp_path, data=data + "1").key != walk(tmp_path).key


@pytest.mark.parametrize("data", [Path("missing"), "./missing", "/missing", 3, ""])
def test_data_that_does_not_exist_is_refused(tmp_path: Path, data: Any) -> None:
    with pytest.raises(InvalidInput, match=r"data is .*expected"):
        walk(tmp_path, data=data).open()


def begin_with(home: Path, **changes: Any) -> None:
    """Have a store say that its plan was begun with something else."""
    database = Database.at(home / "plans.sqlite")
    with database.changing() as connection:
        plan, text = connection.exec_driver_sql("SELECT id, origin FROM hippo_plans").one()
        origin = json.loads(text)
        for name, value in changes.items():
            origin[name] = {**origin[name], **value} if isinstance(value, dict) else value
        connection.exec_driver_sql("UPDATE hippo_plans SET origin = ?", (json.dumps(origin),))
        seal_plan(connection, plan)
    database.close()


def test_a_plan_of_other_versions_is_named_and_not_gone_on_with(tmp_path: Path) -> None:
    with walk(tmp_path) as study:
        study.eval({"lr": 0.5}, 2)
    begin_with(tmp_path, versions={"python": "3.1.0", "fortran": "4"})
    with pytest.raises(StoreError, match=r"other versions: python 3\.1\.0 -> \d.*version="):
        walk(tmp_path).eval({"lr": 0.5}, 2)


def test_a_version_of_the_users_waives_other_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuner = GridSearch({"lr": [0.5]}, metric="at", mode="max", max_steps=2)
    with walk(tmp_path, version="1") as study:
        study.tune(tuner, progress=False)
    begin_with(tmp_path, versions={"python": "3.1.0"})
    with walk(tmp_path, version="1") as study:
        assert study.tune(tuner, progress=True).work.steps_trained == 0
    assert "python 3.1.0 ->" in capsys.readouterr().err


def test_a_plan_keeps_its_threads_whatever_the_number_of_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with walk(tmp_path) as study:
        assert study.eval({"lr": 0.5}, 1)["threads"] == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with walk(tmp_path, executor=Local(workers=2)) as study:
        report = study.tune(GridSearch({"lr": [0.25]}, metric="at", mode="max", max_steps=2), progress=True)
        assert report.best.metrics["threads"] == 3
    assert "keeps the 3 threads a worker" in capsys.readouterr().err
    assert plans(tmp_path) == 1
    with walk(tmp_path, executor=Local(workers=1, threads=2)) as study:
        assert study.eval({"lr": 0.5}, 1)["threads"] == 2
    assert plans(tmp_path) == 2
