"""Optuna's studies as our spaces: what its trials suggest, and what comes with which choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

import hippotune as hippo
from hippotune import Config, InvalidInput
from hippotune.spaces import Choice, Int, LogUniform, Option, Space, Uniform
from hippotune.spaces.optuna_space import OptunaSource
from hippotune.tuners import OptunaSearch, RandomSearch, TrialList
from tuners.scripted import tune

Objective = Callable[[optuna.Trial], float]


def searched(objective: Objective, trials: int = 40, **options: Any) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), **options)
    study.optimize(objective, n_trials=trials)
    return study


def plain(trial: optuna.Trial) -> float:
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    trial.suggest_float("dropout", 0.0, 0.5, step=0.25)
    trial.suggest_int("layers", 1, 4)
    trial.suggest_int("width", 8, 64, log=True)
    trial.suggest_categorical("nesterov", [True, False])
    return abs(lr - 0.01)


def test_every_distribution_has_its_counterpart() -> None:
    assert hippo.spaces.from_optuna(searched(plain)) == Space(
        {
            "lr": LogUniform(1e-4, 1e-1),
            "dropout": Uniform(0.0, 0.5, step=0.25),
            "layers": Int(1, 4),
            "width": Int(8, 64, log=True),
            "nesterov": Choice(True, False),
        }
    )


def test_distributions_alone_are_enough() -> None:
    given = {
        "lr": FloatDistribution(0.1, 1.0),
        "bs": CategoricalDistribution([16, 32]),
        "n": IntDistribution(2, 8, step=2),
    }
    expected = Space({"lr": Uniform(0.1, 1.0), "bs": Choice(16, 32), "n": Int(2, 8, 2)})
    assert hippo.spaces.from_optuna(given) == expected


def conditional(trial: optuna.Trial) -> float:
    optimizer = trial.suggest_categorical("optimizer", ["adam", "sgd", "lion"])
    trial.suggest_categorical("bs", [16, 32])
    if optimizer == "sgd":
        trial.suggest_categorical("nesterov", [True, False])
        if trial.suggest_categorical("kind", ["heavy", "none"]) == "heavy":
            trial.suggest_float("momentum", 0.5, 0.99)
    else:
        trial.suggest_float("beta", 0.8, 0.999)
    return 0.0


def test_what_some_trials_have_comes_with_the_option_that_brings_it() -> None:
    beta = {"beta": Uniform(0.8, 0.999)}
    kind = Choice(Option("heavy", {"momentum": Uniform(0.5, 0.99)}), "none")
    assert hippo.spaces.from_optuna(searched(conditional)) == Space(
        {
            "optimizer": Choice(
                Option("adam", beta),
                Option("sgd", {"nesterov": Choice(True, False), "kind": kind}),
                Option("lion", beta),
            ),
            "bs": Choice(16, 32),
        }
    )


def test_a_number_of_layers_brings_what_each_layer_has() -> None:
    def layered(trial: optuna.Trial) -> float:
        for layer in range(trial.suggest_int("layers", 1, 3)):
            trial.suggest_int(f"units_{layer}", 8, 64, step=8)
        return 0.0

    units = Int(8, 64, step=8)
    assert hippo.spaces.from_optuna(searched(layered)) == Space(
        {
            "layers": Choice(
                1, Option(2, {"units_1": units}), Option(3, {"units_1": units, "units_2": units})
            ),
            "units_0": units,
        }
    )


def test_ranges_that_move_are_taken_together_and_failed_trials_say_nothing() -> None:
    def moving(trial: optuna.Trial) -> float:
        trial.suggest_float("lr", 0.1, 0.2 + trial.number)
        if trial.number == 3:
            raise RuntimeError("gone before all was suggested")
        trial.suggest_int("layers", 1, 2)
        return 0.0

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study()
    study.optimize(moving, n_trials=5, catch=RuntimeError)
    assert hippo.spaces.from_optuna(study) == Space({"lr": Uniform(0.1, 4.2), "layers": Int(1, 2)})


NUMBERS = st.sampled_from([Uniform(0, 1), Int(1, 3), LogUniform(0.1, 10)])


@st.composite
def spaces(draw: st.DrawFn, names: tuple[str, ...] = ("a", "b", "c"), depth: int = 2) -> dict[str, Any]:
    """Draw a space with options that bring others."""
    found: dict[str, Any] = {}
    for name in names[: draw(st.integers(1, len(names)))]:
        if depth and draw(st.booleans()):
            inner = draw(spaces((f"{name}x", f"{name}y"), depth - 1))
            found[name] = [Option(1, inner), 2, Option(3, inner) if draw(st.booleans()) else 3]
        else:
            found[name] = draw(NUMBERS)
    return found


@given(spaces(), st.integers(0, 9))
def test_a_space_that_optuna_searched_comes_back_with_all_that_it_has(
    parameters: dict[str, Any], seed: int
) -> None:
    space = Space(parameters)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))

    def named(trial: optuna.Trial) -> float:
        class Named(OptunaSource):
            """Suggests under the names that hyper-parameters have in a config, with values as choices."""

            def number(self, name: str, distribution: Any) -> Any:
                return super().number(name.rpartition("/")[2], distribution)

            def choice(self, name: str, options: int) -> int:
                return int(trial.suggest_categorical(name.rpartition("/")[2], [1, 2, 3])) - 1

        space.values(Named(trial))
        return 0.0

    study.optimize(named, n_trials=30)
    back = hippo.spaces.from_optuna(study)
    known = OptunaSearch(back, "loss", "min", 3, trials=1, known=study).known
    assert [len(trial.params) for trial in known] == [len(trial.params) for trial in study.trials]
    for name in back.owners.values():
        assert any(name in trial.params for trial in study.trials)


def test_its_space_is_searched_and_its_trials_are_trained() -> None:
    study = searched(conditional)
    space = hippo.spaces.from_optuna(study)
    done = tune(RandomSearch(space, "score", "min", 5, trials=20), lambda config, step: 1.0)
    brought = {"adam": {"beta"}, "lion": {"beta"}, "sgd": {"nesterov", "kind", "momentum"}}
    for trial in done.trials:
        assert set(trial.config) - {"optimizer", "bs"} <= brought[str(trial.config["optimizer"].value(0))]
    again = tune(
        TrialList([(trial.params, 5) for trial in study.trials], "score", "min"), lambda config, step: 1.0
    )
    assert [trial.config for trial in again.trials] == [Config(trial.params) for trial in study.trials]


@pytest.mark.parametrize(("mode", "direction"), [("min", "minimize"), ("max", "maximize")])
def test_a_sampler_goes_on_from_what_is_known(mode: str, direction: str) -> None:
    sign = 1 if mode == "min" else -1

    def objective(trial: optuna.Trial) -> float:
        value = sign * (trial.suggest_float("x", 0, 1) - 0.7) ** 2
        trial.report(value, 1)
        if trial.suggest_categorical("kind", ["a", "b"]) == "b":
            raise optuna.TrialPruned
        return value

    known = searched(objective, 60, direction=direction)
    space = hippo.spaces.from_optuna(known)
    sampler = optuna.samplers.TPESampler(seed=1, n_startup_trials=30)

    def proposed(**options: Any) -> list[float]:
        tuner = OptunaSearch(space, "score", mode, 5, trials=20, sampler=sampler, **options)
        done = tune(tuner, lambda config, step: sign * (float(config["x"].value(0)) - 0.7) ** 2)
        return [abs(float(trial.config["x"].value(0)) - 0.7) for trial in done.trials]

    assert sum(proposed(known=known)) < sum(proposed()) / 2


def test_none_among_the_choices_is_named() -> None:
    with pytest.raises(InvalidInput, match="'clip' has None among its choices in Optuna"):
        hippo.spaces.from_optuna({"clip": CategoricalDistribution([None, 1.0])})


def test_what_does_not_fit_is_told() -> None:
    study = searched(plain, 3)
    space = hippo.spaces.from_optuna(study)
    with pytest.raises(InvalidInput, match=r"study is 3; expected an Optuna study"):
        hippo.spaces.from_optuna(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"study '.*' has no finished trial"):
        hippo.spaces.from_optuna(optuna.create_study())
    with pytest.raises(InvalidInput, match=r"which is to minimize; mode is 'max'"):
        OptunaSearch(space, "loss", "max", 5, trials=2, known=study)
    with pytest.raises(InvalidInput, match=r"known is 'study'; expected an Optuna study"):
        OptunaSearch(space, "loss", "min", 5, trials=2, known="study")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"trial 0 of known is not of the space: .*momentum"):
        OptunaSearch({"momentum": Uniform(0, 1)}, "loss", "min", 5, trials=2, known=study)

    def by_chance(trial: optuna.Trial) -> float:
        if trial.number % 2:
            trial.suggest_float("x", 0, 1)
        return 0.0

    with pytest.raises(
        InvalidInput, match=r"'x' is in some trials only, and no other parameter says in which"
    ):
        hippo.spaces.from_optuna(searched(by_chance, 4))
