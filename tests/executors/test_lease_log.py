"""What trainers print: kept by lease, with study, trial and step, and shown by trial."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hippotune as hippo
from hippotune import Local, MultiStep, Study, Trainer
from hippotune.cli.main import main
from hippotune.executors import lease_log
from hippotune.executors.lease_log import Head, keep


class Talking(Trainer):
    """Says what it does, by Python and as a library does; where it is told to, a lot."""

    def build(self) -> None:
        self.steps = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp.get("lr", None)

    def train(self) -> None:
        self.steps += 1
        print(f"trains to {self.steps} at {self.lr}")
        if self.steps == self.settings.get("shouts at"):
            os.write(1, b"a library shouts\n" * 200_000)
            mark = Path(self.settings["mark"])
            while mark.stat().st_size > lease_log._MOST_BYTES:
                pass

    def evaluate(self) -> dict[str, float]:
        os.write(2, b"a library measures\n")
        return {"score": self.steps}


SPACE = {"lr": [0.5, MultiStep(0.5, [4], 0.1)]}


def tuned(home: Path, name: str = "talking", **settings: Any) -> Study:
    with Study(name, Talking, home=home, executor=Local(workers=1), settings=settings) as study:
        study.tune(hippo.GridSearch(SPACE, "score", "max", 6), progress=False)
    return study


def shown(home: Path, trial: int, capsys: pytest.CaptureFixture[str], name: str = "talking") -> str:
    capsys.readouterr()
    assert main(["show", name, "--home", str(home), "--trial", str(trial), "--log"]) == 0
    return capsys.readouterr().out


def test_what_a_trial_printed_is_shown_with_its_study_trial_and_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(tmp_path)
    for trial, last in ((0, "trains to 5 at 0.5"), (1, "trains to 5 at 0.05")):
        text = shown(tmp_path, trial, capsys)
        assert "for study talking, trial " in text
        assert "[step 1]\ntrains to 1 at 0.5\n" in text, "the shared beginning belongs to both"
        assert [line for line in text.splitlines() if line.startswith("trains to 5")] == [last]
        assert "a library measures" in text


def test_no_other_study_and_no_other_run_touches_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(tmp_path)
    before = shown(tmp_path, 0, capsys)
    tuned(tmp_path, "other", quiet=True)
    tuned(tmp_path)
    assert shown(tmp_path, 0, capsys) == before
    assert "trains to 6" in shown(tmp_path, 0, capsys, "other")


def test_a_log_keeps_its_end_within_its_bounds(tmp_path: Path) -> None:

    log = tmp_path / "mark"
    settings = {"shouts at": 2, "mark": str(log)}
    study = Study("talking", Talking, home=tmp_path, executor=Local(workers=1), settings=settings)
    folder = tmp_path / "checkpoints" / study.key.digest / lease_log.FOLDER
    folder.mkdir(parents=True)
    log.symlink_to(folder / "worker-0.log")
    with study:
        study.eval({"lr": 0.1}, 3)
    (kept,) = folder.glob("*-node-*.log")
    text = kept.read_text()
    assert len(text) <= lease_log._MOST_BYTES
    assert "the beginning was left out" in text
    assert Head.read(kept) is not None
    assert "trains to 3 at 0.1\n" in text


@pytest.mark.parametrize(("limit", "most"), [("_MOST_BYTES_OF_PLAN", 30), ("_MOST_OF_PLAN", 3)])
def test_of_a_plan_the_last_logs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(lease_log, limit, most)
    monkeypatch.setattr(lease_log, "_PRUNE_EVERY", 1)
    kept = []
    for number in range(5):
        (tmp_path / "worker-0.log").write_text(f"0123456 {number}\n")
        kept.append(keep(tmp_path / "worker-0.log"))
    assert sorted(tmp_path.iterdir()) == kept[-3:]


def test_a_log_is_of_a_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "talking", "--home", str(tmp_path), "--log"]) == 2
    assert "say which one with --trial N" in capsys.readouterr().err
