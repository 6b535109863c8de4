import warnings
from collections import Counter

import numpy as np
import optuna
import pytest

from hippotune.errors import InvalidInput
from hippotune.sequences import Config, Exponential
from hippotune.spaces import Choice, Grid, Int, LogUniform, Option, Space, Uniform
from hippotune.tuners import ASHA, BOHB, Hyperband, OptunaSearch
from hippotune.tuners.rung_proposer import enough_scores
from tuners.scripted import tune

SPACE = Space(
    {
        "lr": Exponential(LogUniform(1e-4, 1.0), 0.95),
        "dropout": Uniform(0.0, 0.5, step=0.1),
        "layers": Int(1, 8),
        "optimizer": ["adam", Option("sgd", {"momentum": Uniform(0.5, 0.99)})],
    }
)


def loss(config: Config, step: int) -> float:
    return (np.log10(float(config["lr"].value(0))) + 2) ** 2 + float(config["dropout"].value(0)) + 1 / step


def by_optuna_alone(trials: int, sampler: optuna.samplers.BaseSampler) -> list[Config]:
    """The same search written against Optuna's own interface."""
    study = optuna.create_study(direction="maximize", sampler=sampler)
    configs = []
    for _ in range(trials):
        trial = study.ask()
        hp = {
            "lr": Exponential(trial.suggest_float("lr/value", 1e-4, 1.0, log=True), 0.95),
            "dropout": trial.suggest_float("dropout", 0.0, 0.5, step=0.1),
            "layers": trial.suggest_int("layers", 1, 8),
        }
        index = trial.suggest_categorical("optimizer", range(2))
        hp["optimizer"] = ("adam", "sgd")[index]
        if index == 1:
            hp["momentum"] = trial.suggest_float("optimizer/1/momentum", 0.5, 0.99)
        configs.append(Config(hp))
        study.tell(trial, -loss(configs[-1], 20))
    return configs


@pytest.mark.parametrize(
    "sampler", [optuna.samplers.TPESampler, optuna.samplers.RandomSampler, optuna.samplers.QMCSampler]
)
def test_on_one_worker_the_configs_are_those_that_optuna_proposes(sampler):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        alone = by_optuna_alone(30, sampler(seed=4))
        tuner = OptunaSearch(SPACE, "score", "min", 20, trials=30, sampler=sampler(seed=4))
    done = tune(tuner, loss)
    assert [trial.config for trial in done.trials] == alone


def test_a_sampler_that_learns_does_better_than_chance():
    done = tune(OptunaSearch(SPACE, "score", "min", 20, trials=60, seed=1), loss, workers=2)
    losses = [loss(trial.config, 20) for trial in done.trials]
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) / 2


class Outside(optuna.samplers.RandomSampler):
    def sample_independent(self, study, trial, param_name, param_distribution):
        return 7.5


def test_a_sampler_that_proposes_outside_the_space_is_named_with_its_proposal():
    tuner = OptunaSearch({"lr": Uniform(0, 1)}, "score", "max", 5, trials=3, sampler=Outside(seed=0))
    with pytest.raises(InvalidInput, match=r"sampler proposed 7.5 for 'lr'; expected a value of Uniform"):
        tune(tuner, lambda config, step: 0.0)


def test_what_where_rejects_is_not_proposed():
    space = Space({"a": Uniform(0, 1), "b": Choice(0, 1)}, where=lambda hp: hp["a"] > 0.5 or hp["b"] == 1)
    done = tune(
        OptunaSearch(space, "score", "max", 5, trials=40),
        lambda config, step: 1 - float(config["a"].value(0)),
    )
    assert all(trial.config["a"].value(0) > 0.5 or trial.config["b"].value(0) == 1 for trial in done.trials)


def test_making_studies_says_nothing_to_the_user(capfd):
    optuna.logging.set_verbosity(optuna.logging.INFO)
    try:
        tune(OptunaSearch(SPACE, "score", "min", 5, trials=3), loss)
    finally:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
    assert capfd.readouterr().err == ""


def test_asha_lets_a_sampler_learn_from_the_bottom_rung():
    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=8)
    done = tune(ASHA(SPACE, "score", "min", 1, 9, 3, trials=60, sampler=sampler), loss, workers=2)
    losses = [loss(trial.config, 9) for trial in done.trials]
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) / 2


def test_bohb_fills_the_brackets_of_hyperband_in_their_order():
    bohb = BOHB(SPACE, "score", "min", 1, 27, 3, seed=0)
    assert bohb.brackets() == Hyperband(SPACE, "score", "min", 1, 27, 3).brackets()
    done = tune(bohb, loss, workers=3)
    assert Counter(asked[0] for asked in done.asked().values()) == {
        rungs[0][1]: rungs[0][0] for rungs in bohb.brackets()
    }
    assert [asked[0] for asked in done.asked().values()] == sorted(
        asked[0] for asked in done.asked().values()
    )


def test_with_enough_trials_bohb_proposes_better_configs_than_chance():
    def late(random_fraction: float) -> float:
        tuner = BOHB(SPACE, "score", "min", 1, 9, 3, iterations=8, random_fraction=random_fraction, seed=0)
        done = tune(tuner, loss, workers=2)
        return float(np.mean([loss(trial.config, 9) for trial in done.trials[-40:]]))

    assert late(random_fraction=1 / 3) < 0.8 * late(random_fraction=1.0)


def test_a_model_needs_three_scores_more_than_there_are_parameters():
    assert enough_scores(SPACE) == 5 + 3
    assert enough_scores(Grid({"a": [1, 2], "b": 3})) == 1 + 3


class Hears(optuna.samplers.RandomSampler):
    """Keeps what the study says of its trials whenever it is asked for one."""

    heard: list[list[optuna.trial.FrozenTrial]] = []

    def before_trial(self, study, trial):
        Hears.heard.append(study.get_trials(deepcopy=True))


def test_a_sampler_hears_of_every_rung_and_of_what_pauses_there():
    Hears.heard = []
    done = tune(ASHA(SPACE, "score", "min", 1, 9, 3, trials=30, sampler=Hears(seed=0)), loss, workers=2)
    told = Hears.heard[-1]
    assert len(told) == 30
    for trial in told[:27]:
        reached = done.reached()[trial.number]
        heard = max(trial.intermediate_values, default=0)
        assert heard <= reached
        assert trial.intermediate_values == {
            step: -loss(done.trials[trial.number].config, step) for step in (1, 3, 9) if step <= heard
        }
        if heard:
            assert trial.state.name == ("COMPLETE" if heard == 9 else "PRUNED")
    assert any(len(trial.intermediate_values) > 1 for trial in told), "what was paused has gone on"


@pytest.mark.parametrize(
    "pruner",
    [
        optuna.pruners.MedianPruner(n_startup_trials=2),
        optuna.pruners.PercentilePruner(25.0, n_startup_trials=2),
        optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3),
        optuna.pruners.ThresholdPruner(lower=-2.0),
    ],
    ids=lambda pruner: type(pruner).__name__,
)
def test_on_one_worker_a_pruner_stops_what_it_stops_in_optuna(pruner):
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=3), pruner=pruner
    )
    reached = []
    for _ in range(25):
        trial = study.ask()
        lr, dropout = trial.suggest_float("lr", 1e-4, 1.0, log=True), trial.suggest_float("dropout", 0.0, 0.5)
        config = Config({"lr": lr, "dropout": dropout})
        for step in range(2, 13, 2):
            trial.report(-loss(config, step), step)
            if step < 12 and trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial, -loss(config, 12))
        reached.append((config, step))
    space = {"lr": LogUniform(1e-4, 1.0), "dropout": Uniform(0.0, 0.5)}
    sampler = optuna.samplers.TPESampler(seed=3)
    done = tune(
        OptunaSearch(space, "score", "min", 12, trials=25, sampler=sampler, pruner=pruner, every=2), loss
    )
    assert [(trial.config, done.reached()[trial.number]) for trial in done.trials] == reached
    assert {step for _, step in reached} > {12}


def test_what_is_no_pruner_is_refused():
    with pytest.raises(InvalidInput, match=r"pruner is 'median'; expected one of optuna.pruners"):
        OptunaSearch(SPACE, "score", "min", 5, trials=3, pruner="median")
