"""The example in docs/writing-a-tuner.md is complete, short, and does what the page says."""

import random

import pytest

import hippotune as hippo
from docs.pages import python
from hippotune.executors.simulated.executor import Simulated
from hippotune.spaces import Uniform
from hippotune.trainers import Trainer
from tuners.scripted import tune

EXAMPLE, USE = python("writing-a-tuner")


@pytest.fixture
def pairs():
    names: dict[str, type[hippo.tuners.Tuner]] = {}
    exec(compile(EXAMPLE, "writing-a-tuner.md", "exec"), names)
    return names["Pairs"]


def test_the_example_is_short():
    assert len(EXAMPLE.strip().splitlines()) < 40


@pytest.mark.parametrize(("mode", "choose"), [("max", max), ("min", min)])
def test_the_better_one_of_each_pair_is_trained_to_the_end(pairs, mode, choose):
    tuner = pairs({"x": Uniform(0, 1)}, "score", mode, short=5, long=40, pairs=8)
    for workers in (1, 4, 16):
        done = tune(
            tuner, lambda config, step: config["x"].value(0), workers, random.Random(workers).randrange
        )
        values = [trial.config["x"].value(0) for trial in done.trials]
        assert len(values) == 16
        for first in range(0, 16, 2):
            winner = choose((first, first + 1), key=lambda number: values[number])
            assert {number: done.reached()[number] for number in (first, first + 1)} == {
                number: 40 if number == winner else 5 for number in (first, first + 1)
            }


def test_it_keeps_the_contract(pairs):
    tuner = pairs({"x": Uniform(0, 1)}, "score", "max", short=5, long=40, pairs=8)
    assert not tune(tuner, lambda config, step: None, workers=3).reached()
    assert tune(tuner, lambda config, step: 0.0).log == tune(tuner, lambda config, step: 0.0).log


class Idle(Trainer):
    def setup(self, hp):
        pass

    def train(self):
        pass

    def evaluate(self):
        return {"val_acc": 0.0}

    def save(self, path):
        path.touch()

    def load(self, path):
        pass


def test_it_runs_as_the_page_says(pairs, tmp_path):
    with hippo.Study("pairs", Idle, home=tmp_path, executor=Simulated(workers=4)) as study:
        names = {"hippo": hippo, "Pairs": pairs, "study": study}
        exec(
            compile(
                USE.replace("study.tune(", "study.tune(progress=False, tuner="), "writing-a-tuner.md", "exec"
            ),
            names,
        )
    assert sorted(trial.step for trial in names["report"].trials) == [5] * 8 + [40] * 8
