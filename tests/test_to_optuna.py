"""Our studies in Optuna's hands: trials, parameters, and its plots of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

import hippotune as hippo
from hippotune import Config, Study
from hippotune.errors import HippoError, InvalidInput, MissingExtra, StoreError
from hippotune.executors.simulated.executor import Simulated
from hippotune.history.history import History
from hippotune.history.optuna_parameters import Parameters
from hippotune.history.optuna_study import optuna_study
from hippotune.plan.facts import RequestMade
from hippotune.plan.plan import Plan
from hippotune.store.memory import MemoryStore
from hippotune.study.report import Report
from hippotune.tuners import RandomSearch, SuccessiveHalving
from stored import Asking, Falling, study

SPACE = {
    "lr": [0.5, hippo.MultiStep(0.5, [4], 0.1), hippo.Exponential(0.5, 0.9)],
    "scale": [0.25, 0.5, 1.0],
    "weight": [1, 2],
}
HUGE = hippo.Piecewise([1e200, 1.0], [1])  # times itself: minus infinity, and then not a number
BROKEN = [{"lr": 0.5, "weight": 1}, {"lr": 0.5, "weight": 10}, {"lr": HUGE, "scale": HUGE, "weight": 2}]


@pytest.fixture(scope="module")
def halving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Study, Report]]:
    home = tmp_path_factory.mktemp("optuna") / "home"
    with study("halving", home) as opened:
        tuner = SuccessiveHalving(SPACE, "height", "min", min_steps=2, max_steps=8, reduction=2)
        yield opened, opened.tune(tuner, progress=False)


@pytest.fixture(scope="module")
def theirs(halving: tuple[Study, Report]) -> optuna.Study:
    return halving[0].to_optuna("height", "min")


# Trials.


def test_every_trial_is_there_with_its_value_and_its_way(
    halving: tuple[Study, Report], theirs: optuna.Study
) -> None:
    _, report = halving
    assert theirs.study_name == "halving"
    assert theirs.metric_names == ["height"]
    assert len(theirs.trials) == len(report.trials) == 18
    for ours, trial in zip(report.trials, theirs.trials, strict=True):
        assert trial.number == ours.number == trial.user_attrs["trial"]
        heights = {step: metrics["height"] for step, metrics in ours.metrics.items()}
        assert trial.intermediate_values.items() >= heights.items()
        assert trial.value == heights[ours.asked]
        assert trial.state == (TrialState.COMPLETE if ours.asked == 8 else TrialState.PRUNED)
        assert trial.duration is not None


def test_the_best_is_ours_of_those_that_went_all_the_way(
    halving: tuple[Study, Report], theirs: optuna.Study
) -> None:
    _, report = halving
    assert theirs.direction == optuna.study.StudyDirection.MINIMIZE
    assert theirs.best_trial.number == report.best.number
    assert theirs.best_value == report.best.metrics["height"]


def test_another_metric_ranks_the_other_way_round(halving: tuple[Study, Report]) -> None:
    other = halving[0].to_optuna("fallen", "max")
    assert other.best_value == 1 - halving[1].best.metrics["height"]


def test_trials_that_failed_are_failed_ones_and_numbers_that_are_none_too(tmp_path: Path) -> None:
    with study("broken", tmp_path) as opened:
        opened.tune(Asking(BROKEN, 5), progress=False)
        made = opened.to_optuna("height", "min")
    assert [trial.state for trial in made.trials] == [TrialState.COMPLETE, TrialState.FAIL, TrialState.FAIL]
    assert made.trials[1].user_attrs["error"].endswith("a weight of 10 is too much")
    assert made.trials[2].intermediate_values.keys() == {5}
    assert math.isnan(made.trials[2].intermediate_values[5])


def test_trials_that_do_not_share_are_found_too(tmp_path: Path) -> None:
    with study("alone", tmp_path, share=False) as opened:
        opened.tune(Asking(BROKEN[:1] * 3, 2), progress=False)
    made = opened.to_optuna("height", "min")
    assert [(trial.state.name, trial.value) for trial in made.trials] == [("COMPLETE", 0.25)] * 3


def test_a_trial_that_is_under_way_is_a_running_one() -> None:
    history = asked([{"lr": 0.1}])
    with pytest.raises(InvalidInput, match="metric is None; expected the metric to rank trials by"):
        optuna_study(history, None, None)
    store = MemoryStore()
    plan = Plan()
    config = Config({"lr": 0.1})
    node, facts = plan.place(config, 9)
    store.write([*facts, plan.measure(node.position(3), {"loss": 1.0})])
    store.write([RequestMade("early", 0, config, step) for step in (3, 9)])
    (trial,) = optuna_study(History(store, "early"), "loss", "min").trials
    assert (trial.state, trial.value, trial.intermediate_values) == (TrialState.RUNNING, None, {3: 1.0})


# Parameters.


def asked(configs: list[dict[str, Any]]) -> History:
    """A study that has asked for these configs."""
    plan, store = Plan(), MemoryStore()
    for number, values in enumerate(configs):
        config = Config(values)
        store.write([*plan.place(config, 50)[1], RequestMade("asked", number, config, 50)])
    return History(store, "asked")


def parameters(configs: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return what configs are to Optuna, and the distributions."""
    trials = asked(configs).trials
    made = Parameters(trials)
    return [made.of(trial) for trial in trials], made.distributions


def test_constants_are_numbers_and_choices() -> None:
    configs = [
        {"lr": lr, "layers": layers, "optimizer": name, "nesterov": name == "sgd", "drop": drop}
        for lr, layers, name, drop in ((0.1, 2, "sgd", 0.5), (0.001, 4, "adam", 0))
    ]
    params, distributions = parameters(configs)
    assert params == configs
    assert distributions == {
        "lr": FloatDistribution(0.001, 0.1, log=True),
        "layers": IntDistribution(2, 4),
        "optimizer": CategoricalDistribution(["adam", "sgd"]),
        "nesterov": CategoricalDistribution([False, True]),
        "drop": FloatDistribution(0, 0.5),
    }


def test_sequences_of_one_form_are_the_arguments_in_which_they_differ() -> None:
    params, distributions = parameters(
        [
            {"lr": hippo.Warmup(warmup, hippo.Exponential(0.1, gamma)), "bs": hippo.MultiStep(64, [at], 2)}
            for warmup, gamma, at in ((1, 0.9, 10), (3, 0.9, 20), (3, 0.95, 10))
        ]
    )
    assert params == [
        {"lr.steps": 1, "lr.then.gamma": 0.9, "bs.milestones.0": 10},
        {"lr.steps": 3, "lr.then.gamma": 0.9, "bs.milestones.0": 20},
        {"lr.steps": 3, "lr.then.gamma": 0.95, "bs.milestones.0": 10},
    ]
    assert distributions["lr.steps"] == IntDistribution(1, 3)
    assert distributions["lr.then.gamma"] == FloatDistribution(0.9, 0.95)


def test_sequences_of_several_families_are_a_choice_of_one_with_the_arguments_that_it_has() -> None:
    rates = [0.001 * number for number in range(1, 40)]
    params, distributions = parameters(
        [
            {"lr": family}
            for rate in rates
            for family in (
                rate,
                hippo.Exponential(rate, round(0.9 + rate, 3)),
                hippo.Warmup(2, hippo.Cosine(rate, 50)),
            )
        ]
    )
    assert params[:3] == [
        {"lr.family": "Constant", "lr.value": 0.001},
        {"lr.family": "Exponential", "lr.value": 0.001, "lr.gamma": 0.901},
        {"lr.family": "Warmup(Cosine)", "lr.then.value": 0.001},
    ]
    assert distributions == {
        "lr.family": CategoricalDistribution(["Constant", "Exponential", "Warmup(Cosine)"]),
        "lr.value": FloatDistribution(0.001, 0.039, log=True),
        "lr.gamma": FloatDistribution(0.901, 0.939),
        "lr.then.value": FloatDistribution(0.001, 0.039, log=True),
    }


def test_sequences_of_one_family_with_more_or_fewer_arguments_are_told_apart_by_these() -> None:
    params, distributions = parameters(
        [{"lr": lr} for lr in (0.1, hippo.MultiStep(0.1, [30]), hippo.MultiStep(0.1, [30, 40]))]
    )
    assert params == [
        {"lr.family": "Constant"},
        {"lr.family": "MultiStep"},
        {"lr.family": "MultiStep", "lr.milestones.1": 40},
    ]
    assert distributions["lr.milestones.1"] == IntDistribution(40, 40)


def half(step: int) -> float:
    return 0.5**step


def third(step: int) -> float:
    return 3.0**-step


def test_functions_and_tables_are_choices_as_they_are_written() -> None:
    tables = [hippo.Table([number, *range(19)]) for number in (1, 2)]
    params, _ = parameters(
        [
            {"lr": hippo.Function(function), "bs": table}
            for function, table in zip((half, third), tables, strict=True)
        ]
    )
    assert params == [
        {"lr.family": "Function", "bs.family": repr(tables[0])},
        {"lr.family": "Function (2)", "bs.family": repr(tables[1])},
    ]


def test_what_only_some_trials_have_only_they_have() -> None:
    params, _ = parameters([{"optimizer": "adam"}, {"optimizer": "sgd", "momentum": 0.9}])
    assert params == [{"optimizer": "adam"}, {"optimizer": "sgd", "momentum": 0.9}]


def test_kinds_that_have_no_order_together_are_a_choice_of_what_they_are() -> None:
    params, distributions = parameters([{"clip": clip} for clip in ("off", 1, 0.5)])
    assert [each["clip"] for each in params] == ["off", 1, 0.5]
    assert distributions["clip"] == CategoricalDistribution([0.5, 1, "off"])


def test_booleans_among_numbers_are_texts_because_one_is_true_to_optuna() -> None:
    params, distributions = parameters([{"clip": clip} for clip in (1, 0.5, True)])
    assert [each["clip"] for each in params] == ["1", "0.5", "True"]
    assert distributions["clip"] == CategoricalDistribution(["0.5", "1", "True"])


def test_one_and_the_same_sequence_is_left_out() -> None:
    params, _ = parameters([{"lr": hippo.Cosine(0.1, 50), "bs": bs} for bs in (1, 2)])
    assert params == [{"bs": 1}, {"bs": 2}]


def test_the_attributes_of_a_trial_have_its_whole_config(theirs: optuna.Study) -> None:
    for trial in theirs.trials:
        assert trial.user_attrs.keys() >= {"lr", "scale", "weight"}
    assert {"lr": 0.5, "scale": 0.25, "weight": 1}.items() <= theirs.trials[0].user_attrs.items()
    assert theirs.trials[-1].user_attrs["lr"] == "Exponential(0.5, 0.9)"


def test_a_space_comes_back_only_without_schedules(theirs: optuna.Study, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"to_optuna\(\) of a study in which 'lr' had schedules"):
        hippo.spaces.from_optuna(theirs)
    with study("constants", tmp_path) as opened:
        opened.tune(Asking([{"lr": 0.5, "weight": weight} for weight in (1, 2)], 2), progress=False)
        space = hippo.spaces.from_optuna(opened.to_optuna("height", "min"))
    assert space.parameters.keys() == {"lr", "weight"}


# Plots.

PLOTS: list[tuple[str, Callable[[Any], int]]] = [
    ("plot_optimization_history", lambda figure: len(figure.data[0].x)),
    ("plot_param_importances", lambda figure: len({"lr.family", "scale", "weight"} & {*figure.data[0].y})),
    ("plot_slice", lambda figure: len(figure.data)),
    ("plot_parallel_coordinate", lambda figure: len(figure.data)),
    ("plot_intermediate_values", lambda figure: len(figure.data)),
    ("plot_contour", lambda figure: len(figure.data)),
    ("plot_edf", lambda figure: len(figure.data)),
    ("plot_rank", lambda figure: len(figure.data)),
    ("plot_timeline", lambda figure: len(figure.data)),
]


@pytest.mark.parametrize(("name", "count"), PLOTS)
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_optunas_plots_draw_our_studies(theirs: optuna.Study, name: str, count: Callable[[Any], int]) -> None:
    figure = getattr(optuna.visualization, name)(theirs)
    assert "<div" in figure.to_html(include_plotlyjs=False)
    complete = len([trial for trial in theirs.trials if trial.state == TrialState.COMPLETE])
    expected = {
        "plot_optimization_history": complete,
        "plot_param_importances": 3,
        "plot_slice": 4,
        "plot_intermediate_values": 18,
    }
    assert count(figure) == expected.get(name, count(figure)) > 0


def test_a_study_in_virtual_time_can_be_drawn_while_it_is_open() -> None:
    space = {"lr": hippo.Exponential(hippo.LogUniform(1e-3, 1e-1), hippo.Uniform(0.9, 1.0))}
    ours = Study("virtual", Falling, executor=Simulated(workers=4))
    report = ours.tune(RandomSearch(space, "loss", "min", max_steps=10, trials=30), progress=False)
    made = ours.to_optuna("loss", "min")
    assert made.best_value == report.best.metrics["loss"]
    assert made.best_params.keys() == {"lr.value", "lr.gamma"}
    assert made.trials[0].distributions["lr.value"].log  # type: ignore[union-attr]
    importances = optuna.importance.get_param_importances(made)
    assert importances.keys() == {"lr.value", "lr.gamma"}
    ours.close()
    with pytest.raises(HippoError, match="before close"):
        ours.to_optuna("loss", "min")


# What is missing.


def test_a_study_that_never_ran_has_nothing_to_hand_over(
    tmp_path: Path, halving: tuple[Study, Report]
) -> None:
    with pytest.raises(
        StoreError, match=r"no study has been run with that home\. .*--home FOLDER, or Study\("
    ):
        study("new", tmp_path / "none").to_optuna("height", "min")
    with pytest.raises(StoreError, match="has no plan"):
        study("new", halving[0].home, seed=5).to_optuna("height", "min")


def test_without_optuna_the_extra_is_named(
    halving: tuple[Study, Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r"pip install 'hippotune\[optuna\]'"):
        halving[0].to_optuna("height", "min")
