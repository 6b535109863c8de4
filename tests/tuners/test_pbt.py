import math
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune import Simulated, Study
from hippotune.sequences import Config, Constant, Exponential, Then
from hippotune.spaces import Choice, Grid, Int, LogUniform, Option, Space, Uniform
from hippotune.tuners import PBT
from tuners.scripted import Scripted, tune
from tuners.test_conformance import Idle

SPACE = Space(
    {
        "lr": LogUniform(1e-4, 1.0),
        "dropout": Uniform(0.0, 0.5, step=0.05),
        "layers": Int(1, 9),
        "schedule": [Constant(1.0), Exponential(1.0, 0.9)],
        "width": 64,
    }
)


def generations(done: Scripted, interval: int, max_steps: int) -> list[dict[int, float]]:
    """The scores of the population at the end of each interval."""
    steps = [*range(interval, max_steps, interval), max_steps]
    heard: list[dict[int, float]] = [{} for _ in steps]
    for kind, number, step in done.log:
        if kind in ("hear", "fail"):
            value = done.score(done.trials[number].config, step)
            heard[steps.index(step)][number] = (
                -math.inf if value is None or not math.isfinite(value) else value
            )
    return heard


def random_scores(seed: int, failing: bool):
    def score(config: Config, step: int) -> float | None:
        number = crc32(repr((seed, step, config.values(step - 1))).encode()) % 1000
        if failing and number < 150:
            return None if number < 75 else math.nan
        return float(number)

    return score


@given(
    st.integers(2, 12),
    st.sampled_from([0.0, 0.2, 0.25, 0.5]),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 99),
    st.randoms(use_true_random=False),
)
def test_the_worst_are_replaced_by_branches_off_the_best(population, quantile, workers, failing, seed, order):
    tuner = PBT(SPACE, "score", "max", 5, 18, population, quantile, seed=seed)
    done = tune(tuner, random_scores(seed, failing), workers, order.randrange)
    asked = done.asked()
    replaced = math.floor(population * quantile)
    for place, scores in enumerate(generations(done, 5, 18)[:-1]):
        step = (place + 1) * 5
        if not scores:
            break
        assert len(scores) == population
        ranked = sorted((t for t in scores if scores[t] > -math.inf), key=lambda t: (-scores[t], t))
        if not ranked:
            break
        following = min(step + 5, 18)
        going_on = {number for number, steps in asked.items() if following in steps and step in steps}
        assert going_on == set(ranked[: population - replaced])
        born = [number for number, steps in asked.items() if steps[0] == following]
        assert len(born) == population - len(going_on)
        best = [done.trials[number].config for number in ranked[: max(replaced, 1)]]
        for number in born:
            config = done.trials[number].config
            assert any(config.first_difference(winner, step) is None for winner in best)


def test_members_certain_to_stay_go_on_before_the_slowest_has_arrived():
    tuner = PBT({"n": Int(0, 1000)}, "score", "max", 5, 10, population=8, quantile=0.25, seed=1)
    done = tune(tuner, lambda config, step: float(config["n"].value(0)))
    first = [event for event in done.log if event[2] == 5]
    heard, waiting = 0, []
    for kind, _, step in done.log:
        heard += kind == "hear" and step == 5
        if kind == "ask" and step == 10:
            waiting.append(heard)
    assert waiting == [3, 4, 5, 6, 7, 8, 8, 8]
    assert len(first) == 16


def test_without_randomness_in_the_scores_it_does_not_matter_who_finishes_first():
    tuner = PBT(SPACE, "score", "min", 4, 20, population=6, seed=3)
    score = random_scores(3, failing=False)
    one = tune(tuner, score)
    other = tune(tuner, score, workers=6, pick=lambda running: running - 1)
    assert {trial.config for trial in one.trials} == {trial.config for trial in other.trials}


def test_exploring_stays_within_the_space_and_changes_numbers_by_a_factor_or_anew():
    tuner = PBT(SPACE, "score", "max", 2, 40, population=10, quantile=0.5, resample=0.0, seed=2)
    done = tune(tuner, random_scores(2, failing=False))
    changes = 0
    for trial in done.trials:
        for step in range(2, 40, 2):
            before, now = trial.config.values(step - 1), trial.config.values(step)
            assert 1e-4 <= now["lr"] <= 1.0
            assert now["layers"] in range(1, 10)
            assert 0 <= now["dropout"] <= 0.5
            assert now["width"] == 64
            if before["lr"] != now["lr"] and 1e-4 < now["lr"] < 1.0:
                changes += 1
                assert now["lr"] / before["lr"] == pytest.approx(0.8) or now["lr"] / before[
                    "lr"
                ] == pytest.approx(1.2)
    assert changes > 20


def test_only_what_may_be_explored_changes():
    tuner = PBT(SPACE, "score", "max", 2, 20, population=8, quantile=0.5, explore=["lr"], seed=2)
    done = tune(tuner, random_scores(2, failing=False))
    assert any(isinstance(trial.config["lr"], Then) for trial in done.trials)
    assert not any(
        isinstance(trial.config[name], Then)
        for trial in done.trials
        for name in SPACE.parameters
        if name != "lr"
    )


def test_a_long_chain_of_changes_stays_flat_and_survives_json():
    done = tune(
        PBT(SPACE, "score", "max", 2, 60, population=6, quantile=0.5, seed=4), random_scores(4, failing=False)
    )
    longest = max(
        (trial.config["lr"] for trial in done.trials),
        key=lambda lr: len(lr.arguments[0]) if isinstance(lr, Then) else 0,
    )
    assert len(longest.arguments[0]) > 5
    assert all(isinstance(part, Constant) for part in longest.arguments[0])
    for trial in done.trials:
        assert Config.from_json(trial.config.to_json()) == trial.config


def test_a_choice_that_brings_hyper_parameters_is_never_changed_midway_but_they_are():
    space = {"optimizer": ["adam", Option("sgd", {"momentum": Uniform(0.5, 0.99)})], "lr": [0.1, 0.01]}
    tuner = PBT(space, "score", "max", 2, 20, population=8, quantile=0.5, seed=0)
    done = tune(tuner, lambda config, step: float(len(config)))
    assert all(isinstance(trial.config["optimizer"], Constant) for trial in done.trials)
    assert any(
        isinstance(trial.config["momentum"], Then) for trial in done.trials if "momentum" in trial.config
    )


def test_what_where_rejects_is_never_made():
    space = Grid({"a": [1, 2, 3, 4], "b": Choice(1, 2, 3, 4)}, where=lambda hp: hp["a"] != hp["b"])
    done = tune(
        PBT(space, "score", "max", 2, 20, population=8, quantile=0.5, seed=0), random_scores(0, failing=False)
    )
    for trial in done.trials:
        for step in range(20):
            values = trial.config.values(step)
            assert values["a"] != values["b"]


def test_without_sharing_children_still_go_on_from_their_parents_weights(tmp_path):
    tuner = PBT(SPACE, "score", "max", 5, 20, population=8, quantile=0.25, seed=1)
    reports = {}
    for share in (False, True):
        with Study("pbt", Idle, home=tmp_path, executor=Simulated(2), share=share, audit=0) as study:
            reports[share] = study.tune(tuner, progress=False)
    assert len(reports[False].trials) > 8
    assert reports[False].work.steps_trained == 8 * 20
    outcomes = {
        share: [(trial.config, trial.metrics) for trial in report.trials] for share, report in reports.items()
    }
    assert outcomes[False] == outcomes[True]
