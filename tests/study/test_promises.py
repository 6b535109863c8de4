"""Sharing never changes a result: real studies on real processes against trials trained alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import hippotune as hippo
from hippotune import Config, Cosine, Exponential, Linear, MultiStep, Piecewise, Study, Warmup
from hippotune.history.logged import Logged
from hippotune.plan.plan import Plan, unique_steps
from hippotune.trainers.session import Session
from hippotune.tuners import TrialGroup
from study.walkers import Mortal, Walker

RATES = [
    0.1,
    Exponential(0.1, 0.9),
    MultiStep(0.1, [6], 0.1),
    MultiStep(0.1, [6, 11], 0.1),
    Piecewise([0.1, 0.01], [9]),
    Warmup(4, Cosine(0.1, 12)),
    Linear(0.1, 0.01, 10),
]
SIZES = [16, MultiStep(16, [7], 2), MultiStep(16, [3], 2)]


def alone(config: Config, steps: int) -> tuple[Walker, Logged]:
    """Train one trial in this process, from beginning to end; return it, and what it has logged."""
    session = Session(Walker, {}, seed=5)
    session.logged = []
    session.start(config, 0, None, warm=False)
    for _ in range(steps):
        session.advance()
    logged: Logged = {}
    for step, numbers in session.logged:
        for name, number in numbers.items():
            logged.setdefault(name, []).append((step, number))
    assert isinstance(session.trainer, Walker)
    return session.trainer, logged


def shared_state(study: Study, config: Config, step: int) -> bytes:
    trainer = study.load(config, step)
    assert isinstance(trainer, Walker)
    return trainer.weights.tobytes()


class Groups(hippo.tuners.Tuner):
    """Submits trials group by group, in the order given, each as soon as a result has come."""

    metric, mode = "loss", "min"

    def __init__(self, groups: list[list[tuple[Config, int]]]) -> None:
        self.groups = groups

    async def run(self, trials: hippo.tuners.Trials) -> None:
        for group in self.groups:
            trials.submit(TrialGroup(tuple(group), every=5))
            await trials.next()
        while trials.open:
            await trials.next()


def draw(chance: random.Random) -> list[list[tuple[Config, int]]]:
    pool = [Config({"lr": lr, "bs": bs}) for lr in RATES for bs in SIZES]
    return [
        [(chance.choice(pool), chance.randint(1, 18)) for _ in range(chance.randint(2, 6))]
        for _ in range(chance.randint(1, 3))
    ]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("trainer", [Walker, Mortal])
def test_every_trial_of_random_studies_is_bit_identical_to_training_it_alone(
    tmp_path: Path, workers: int, trainer: type[Walker]
) -> None:
    chance = random.Random(f"{workers} {trainer.__name__}")
    settings = {"deaths": str(tmp_path / "deaths")}
    (tmp_path / "deaths").mkdir()
    executor = hippo.Local(workers)
    for number in range(3):
        study = Study(
            "promise", trainer, home=tmp_path / str(number), executor=executor, settings=settings, seed=5
        )
        with study:
            groups = draw(chance)
            report = study.tune(Groups(groups), progress=False)
            asked = [ask for group in groups for ask in group]
            assert [(trial.config, trial.asked) for trial in report.trials] == asked
            for trial in report.trials:
                expected, logged = alone(trial.config, trial.asked)
                assert trial.metrics[trial.asked] == expected.evaluate()
                assert shared_state(study, trial.config, trial.asked) == expected.weights.tobytes()
                assert report.logged(trial) == logged
            plan = Plan()
            unique = unique_steps([(plan.place(config, step)[0], step) for config, step in asked])
            assert report.work.steps_unique == unique
    if trainer is Mortal:
        assert list((tmp_path / "deaths").iterdir()), "no worker died: the test tests nothing"


def test_all_asked_at_once_every_unique_step_is_trained_exactly_once(tmp_path: Path) -> None:
    asks = [(Config({"lr": lr, "bs": bs}), 15) for lr in RATES for bs in SIZES]
    with Study("once", Walker, home=tmp_path, executor=hippo.Local(2), seed=5) as study:
        report = study.tune(Groups([asks]), progress=False)
    assert report.work.steps_trained == report.work.steps_unique
    assert report.work.steps_requested == 15 * len(asks)


def test_trained_alone_and_shared_the_results_are_the_same(tmp_path: Path) -> None:
    asks = [(Config({"lr": lr, "bs": 16}), 12) for lr in RATES]
    executor = hippo.Local(2)
    with Study("same", Walker, home=tmp_path, executor=executor, seed=5) as study:
        shared = study.tune(Groups([asks]), progress=False)
    with Study("same", Walker, home=tmp_path, executor=executor, seed=5, share=False) as study:
        unshared = study.tune(Groups([asks]), progress=False)
    assert [trial.metrics for trial in shared.trials] == [trial.metrics for trial in unshared.trials]
    assert unshared.work.steps_trained == unshared.work.steps_requested
    assert shared.work.steps_trained < unshared.work.steps_trained


def test_run_again_everything_is_found_and_nothing_is_trained(tmp_path: Path) -> None:
    groups = draw(random.Random(1))
    first = Study("again", Walker, home=tmp_path, executor=hippo.Local(2), seed=5)
    with first:
        before = first.tune(Groups(groups), progress=False)
    second = Study("again", Walker, home=tmp_path, executor=hippo.Local(1), seed=5)
    with second:
        after = second.tune(Groups(groups), progress=False)
    assert after.work.steps_trained == 0
    assert [trial.metrics for trial in after.trials] == [trial.metrics for trial in before.trials]
    assert after.best.config == before.best.config
