"""What every tuner must do, whatever it decides."""

import inspect
import math
import random

import optuna
import pytest

import hippotune.tuners
from hippotune import Study
from hippotune.executors.simulated.executor import Simulated
from hippotune.sequences import Config, Exponential
from hippotune.spaces import Grid, LogUniform, Option, Samples, Space
from hippotune.trainers import Trainer
from hippotune.tuners import (
    ASHA,
    BOHB,
    PASHA,
    PBT,
    EarlyStop,
    GridSearch,
    Hyperband,
    HyperSched,
    Lazy,
    MedianStopping,
    OptunaSearch,
    RandomSearch,
    SuccessiveHalving,
    TrialList,
    Tuner,
)
from tuners.scripted import tune

SPACE = Space(
    {
        "lr": Exponential(LogUniform(1e-3, 1.0), 0.9),
        "bs": [32, 64, 128],
        "optimizer": ["adam", Option("sgd", {"momentum": [0.9, 0.99]})],
    }
)
GRID = Grid({"lr": [0.1 * n for n in range(1, 9)], "bs": [32, 64]})
SAMPLER = optuna.samplers.TPESampler(seed=1, n_startup_trials=4)

TUNERS = {
    "grid search": lambda mode: GridSearch(GRID, "score", mode, 9),
    "grid search of samples": lambda mode: GridSearch(Samples(SPACE, 12), "score", mode, 9),
    "list of trials": lambda mode: TrialList([(c, 2 + n % 8) for n, c in enumerate(GRID)], "score", mode),
    "random search": lambda mode: RandomSearch(SPACE, "score", mode, 9, trials=12),
    "early stop": lambda mode: EarlyStop(GRID, "score", mode, milestones=[2, 5, 9], keep=[6, 2]),
    "successive halving": lambda mode: SuccessiveHalving(GRID, "score", mode, 1, 9, 3),
    "successive halving of samples": lambda mode: SuccessiveHalving(SPACE, "score", mode, 1, 9, 3, trials=12),
    "hyperband": lambda mode: Hyperband(SPACE, "score", mode, 1, 9, 3),
    "hyperband of a grid": lambda mode: Hyperband(GRID, "score", mode, 1, 27, 3),
    "hyperband with a sampler": lambda mode: Hyperband(SPACE, "score", mode, 1, 9, 3, sampler=SAMPLER),
    "asha": lambda mode: ASHA(GRID, "score", mode, 1, 9, 3),
    "asha of samples": lambda mode: ASHA(SPACE, "score", mode, 1, 9, 3, trials=12),
    "asha with a sampler": lambda mode: ASHA(SPACE, "score", mode, 1, 9, 3, trials=12, sampler=SAMPLER),
    "hypersched": lambda mode: HyperSched(GRID, "score", mode, 1, 9, 3),
    "hypersched of samples": lambda mode: HyperSched(SPACE, "score", mode, 1, 9, 3, every=2, trials=12),
    "pasha": lambda mode: PASHA(GRID, "score", mode, 1, 27, 3),
    "median stopping": lambda mode: MedianStopping(GRID, "score", mode, 9, startup_trials=2),
    "pbt": lambda mode: PBT(SPACE, "score", mode, 3, 10, population=6),
    "pbt of a grid": lambda mode: PBT(GRID, "score", mode, 3, 10, population=6, quantile=0.5),
    "lazy": lambda mode: Lazy(SPACE, "score", mode, 9, steps=90),
    "lazy, of a grid": lambda mode: Lazy(GRID, "score", mode, 9, steps=90),
    "median stopping by averages": lambda mode: MedianStopping(
        GRID, "score", mode, 9, startup_trials=2, rule="vizier"
    ),
    "optuna search with prices and a pruner": lambda mode: OptunaSearch(
        SPACE, "score", mode, 9, trials=12, cost_aware=True, every=3, pruner=optuna.pruners.MedianPruner()
    ),
    "optuna search": lambda mode: OptunaSearch(SPACE, "score", mode, 9, trials=12, sampler=SAMPLER),
    "optuna search of a grid": lambda mode: OptunaSearch(GRID, "score", mode, 9, trials=12),
    "bohb": lambda mode: BOHB(SPACE, "score", mode, 1, 9, 3),
}

every_tuner = pytest.mark.parametrize("make", TUNERS.values(), ids=TUNERS)


def smooth(config: Config, step: int) -> float:
    return step * float(config["lr"].value(0)) / float(config["bs"].value(0))


def awkward(seed: int):
    """Scores of which some are missing, not a number, infinite or equal."""
    chance = random.Random(seed)
    values: list[float | None] = [None, math.nan, math.inf, -math.inf, 0.0, 0.0, 1.0, 1.0, 2.0, 3.0]
    return lambda config, step: chance.choice(values)


def test_every_tuner_is_here():
    public = [getattr(hippotune.tuners, name) for name in hippotune.tuners.__all__]
    kinds = {
        kind
        for kind in public
        if inspect.isclass(kind) and issubclass(kind, Tuner) and not inspect.isabstract(kind)
    }
    assert kinds == {type(make("max")) for make in TUNERS.values()}


@every_tuner
@pytest.mark.parametrize("mode", ["max", "min"])
def test_it_ends_with_a_trial_trained_to_the_end(make, mode):
    tuner = make(mode)
    done = tune(tuner, smooth, workers=3)
    if not isinstance(tuner, PASHA):
        assert max(done.reached().values()) == tuner.max_steps
    assert max(done.reached().values()) <= tuner.max_steps


@every_tuner
@pytest.mark.parametrize("seed", range(4))
def test_it_survives_failures_and_nan_whatever_the_order(make, seed):
    tune(make("max"), awkward(seed), workers=1 + seed, pick=random.Random(seed).randrange)


@every_tuner
@pytest.mark.parametrize("value", [None, math.nan, math.inf], ids=["failing", "nan", "infinite"])
def test_it_ends_where_every_trial_is_without_a_score(make, value):
    done = tune(make("min"), lambda config, step: value, workers=2)
    assert done.trials


@every_tuner
def test_run_again_it_makes_the_same_decisions(make):
    tuner = make("max")
    runs = [tune(one, awkward(5), 3, random.Random(8).randrange) for one in (tuner, tuner, make("max"))]
    assert runs[0].log == runs[1].log == runs[2].log
    assert runs[0].trials == runs[1].trials == runs[2].trials
    assert runs[0].groups == runs[1].groups == runs[2].groups


class Idle(Trainer):
    """Trains nothing; in virtual time metrics are made up."""

    def setup(self, hp):
        pass

    def train(self):
        pass

    def evaluate(self):
        return {}

    def save(self, path):
        path.touch()

    def load(self, path):
        pass


@every_tuner
def test_run_again_on_its_study_it_asks_for_the_same_and_nothing_is_trained(make, tmp_path):
    with Study("again", Idle, home=tmp_path, executor=Simulated(workers=3)) as study:
        first, second = (study.tune(make("max"), progress=False) for _ in range(2))
    assert [(trial.config, trial.step) for trial in first.trials] == [
        (trial.config, trial.step) for trial in second.trials
    ]
    assert first.best.config == second.best.config
    assert first.work.steps_trained > 0
    assert second.work.steps_trained == 0


@every_tuner
def test_more_is_better_or_less_is_better_and_nothing_else_differs(make):
    most = tune(make("max"), smooth, workers=2)
    least = tune(make("min"), lambda config, step: -smooth(config, step), workers=2)
    assert most.log == least.log
    assert most.trials == least.trials


@every_tuner
def test_it_asks_only_for_whole_steps_within_its_limit_and_only_within_its_space(make):
    tuner = make("max")
    done = tune(tuner, smooth, workers=4)
    for asked in done.asked().values():
        assert all(isinstance(step, int) and 1 <= step <= tuner.max_steps for step in asked)
    for trial in done.trials:
        assert trial.config["bs"].value(0) in (32, 64, 128)


@every_tuner
def test_configs_that_are_known_beforehand_are_foreseen_or_submitted_at_once(make):
    tuner = make("max")
    done = tune(tuner, smooth, workers=2)
    if isinstance(tuner, Lazy):
        assert tuner.number <= len(done.trials)
        return
    if getattr(tuner, "sampler", None) or isinstance(tuner, BOHB | OptunaSearch):
        assert tuner.number == len(done.trials)
        return
    known = tuner.configs()
    assert [trial.config for trial in done.trials][: tuner.number] == known
    at_once = [what for what, _ in done.groups[0].asks] == known
    assert at_once or done.foreseen == [(known, tuner.max_steps)]
