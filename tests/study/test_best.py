"""The best result: of everything that the tuner has heard, with its model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hippotune as hippo
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
