"""The best result: of everything that the tuner has heard, with its model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hippotune as hippo
from hippotune.errors import CheckpointError
from hippotune.plan.facts import Checkpoint
from hippotune.store.files import CheckpointFiles
from hippotune.tuners import TrialGroup, Trials
from tuners.test_conformance import Idle


class Counter(hippo.Trainer):
    """Gets better up to step 6, and worse from there."""

    def build(self) -> None:
        self.steps = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.offset = hp["offset"]

    def train(self) -> None:
        self.steps += 1

    def evaluate(self) -> Mapping[str, float]:
        return {"score": self.offset - abs(self.steps - 6)}


class StopsLate(hippo.GridSearch):
    """Hears of every step, and withdraws the better trial at step 8, after its best one."""

    async def run(self, trials: Trials) -> None:
        trials.submit(TrialGroup.of(self.configs(), self.max_steps, every=1))
        while trials.open:
            result = await trials.next()
            if result.step == 8 and result.trial.number == 1:
                trials.withdraw(result.trial)


def curve(config: hippo.Config, step: int) -> dict[str, float]:
    return {"score": float(config["offset"].value(0)) - abs(step - 6)}


def test_results_on_the_way_count_also_those_of_a_trial_that_was_withdrawn() -> None:
    executor = hippo.Simulated(2, metrics=curve)
    with hippo.Study("best", Idle, executor=executor) as study:
        report = study.tune(StopsLate({"offset": [0, 1]}, "score", "max", 12), progress=False)
    assert (report.best.number, report.best.step, report.best.metrics) == (1, 6, {"score": 1.0})


def test_where_nothing_was_saved_its_model_is_trained_again_when_it_is_loaded(tmp_path: Path) -> None:
    with hippo.Study("best", Counter, home=tmp_path, executor=hippo.Local(workers=1)) as study:
        report = study.tune(StopsLate({"offset": [0, 1]}, "score", "max", 12), progress=False)
        assert report.best.step == 6
        assert report.work.steps_trained == report.work.steps_unique
        loaded = report.best.load()
    assert isinstance(loaded, Counter)
    assert loaded.steps == 6
    assert loaded.evaluate() == report.best.metrics


def test_a_deadline_is_not_passed_to_train_it_again() -> None:
    executor = hippo.Simulated(1, metrics=curve)
    with hippo.Study("best", Idle, executor=executor, audit=0) as study:
        tuner = StopsLate({"offset": [0]}, "score", "max", 40)
        report = study.tune(tuner, deadline=20, progress=False)
    assert report.ended_by == "deadline"
    assert report.best.step == 6
    assert report.work.wall_seconds <= 21


def test_one_whose_checkpoint_is_damaged_twice_is_a_result_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(files: CheckpointFiles, checkpoint: Checkpoint) -> Path:
        raise CheckpointError(f"{checkpoint.name} is damaged")

    monkeypatch.setattr(CheckpointFiles, "verify", damaged)
    with hippo.Study("best", Counter, home=tmp_path, executor=hippo.Local(workers=1)) as study:
        tuner = hippo.GridSearch({"offset": [0, 1]}, "score", "max", max_steps=6)
        report = study.tune(tuner, progress=False)
        assert (report.best.number, report.best.metrics, report.best.path) == (1, {"score": 1.0}, None)
        with pytest.raises(CheckpointError, match="check the disk"):
            report.best.load()


def test_a_state_that_cannot_be_looked_at_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(files: CheckpointFiles, checkpoint: Checkpoint) -> Path:
        raise OSError("the disk is gone")

    monkeypatch.setattr(CheckpointFiles, "verify", unreadable)
    with hippo.Study("best", Counter, home=tmp_path, executor=hippo.Local(workers=1)) as study:
        with pytest.raises(OSError, match="the disk is gone"):
            study.load({"offset": 0}, 4)
        runtime = study._connection.runtime
        assert runtime is not None
        (position,) = (position for position, _ in runtime.plan.checkpoints() if position.step == 4)
        assert not runtime.ask(lambda: runtime.loop.engine.checkpoints.is_pinned(position))
