"""Search by prices: what a config costs is what training it takes, and the budget is kept."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hippotune as hippo
from examples import few_examples
from hippotune import WSD, Choice, Config, Int, LogUniform, MultiStep, Simulated, Study
from hippotune.errors import InvalidInput
from hippotune.spaces import Option, Space
from hippotune.tuners import TrialGroup, Trials
from hippotune.tuners.features import Features
from hippotune.tuners.prices import Prices
from tuners.scripted import tune
from tuners.test_conformance import Idle

LATE = hippo.Grid(
    {
        "lr": WSD(Choice(0.01, 0.02, 0.04), 30, decay=Choice(3, 6, 9, 12), shape=Choice("linear", "cosine")),
        "bs": [16, MultiStep(16, [20], 2)],
    }
)
OPEN = Space(
    {
        "lr": WSD(LogUniform(1e-3, 1e-1), 30, warmup=Int(1, 4), decay=Int(3, 12)),
        "optimizer": ["adam", Option("sgd", {"momentum": [0.8, 0.9]})],
    },
    where=lambda hp: hp["lr"].arguments[2] < 4,
)


def loss(config: Config, step: int) -> float:
    """A loss that depends on what was in force before `step`: best at a peak of 0.02 and a decay of 9."""
    rates = [float(config["lr"].value(at)) for at in range(step)]
    return abs(math.log10(max(rates)) - math.log10(0.02)) + abs(sum(rates) / len(rates) / max(rates) - 0.82)


def simulated(tuner: hippo.tuners.Tuner, workers: int = 1) -> hippo.study.Report:
    executor = Simulated(workers, metrics=lambda config, step: {"loss": loss(config, step)})
    with Study("lazy", Idle, executor=executor, audit=0) as study:
        return study.tune(tuner, progress=False)


class InOrder(hippo.GridSearch):
    """Configs one after the other; before each, some are foreseen. Notes what each was said to cost."""

    def __init__(self, order: list[tuple[Config, list[Config]]]) -> None:
        super().__init__(LATE, "loss", "min", 30)
        self.order, self.spent = order, 0

    async def run(self, trials: Trials) -> None:
        prices = Prices(30)
        # The first trial of a plan is rehearsed, and keeps a checkpoint for that: it shares nothing here.
        for config, foreseen in [(Config({"lr": 1.0, "bs": 1}), []), *self.order]:
            trials.foresee(foreseen, 30)
            prices.foresee(foreseen)
            self.spent += prices.of(config)
            prices.ask(config)
            await trials.all(trials.submit(TrialGroup.of([config], 30)))


configs = st.sampled_from(list(LATE))


@few_examples
@given(st.lists(st.tuples(configs, st.lists(configs, max_size=3)), min_size=1, max_size=8))
def test_a_price_is_what_the_engine_trains(order: list[tuple[Config, list[Config]]]) -> None:
    tuner = InOrder(order)
    assert simulated(tuner).work.steps_trained == tuner.spent


@pytest.mark.parametrize("space", [LATE, OPEN], ids=["finite", "open"])
def test_it_spends_its_steps_and_no_more_on_more_trials_than_would_fit_alone(space: Space) -> None:
    report = simulated(hippo.Lazy(space, "loss", "min", 30, steps=420, blind=0.0))
    assert report.work.steps_trained <= 420
    assert len(report.trials) > 420 / 30


def test_several_workers_spend_no_more_either() -> None:
    report = simulated(hippo.Lazy(LATE, "loss", "min", 30, steps=300), workers=4)
    assert report.work.steps_unique <= 300


def test_every_proposal_is_a_member_of_the_space() -> None:
    done = tune(hippo.Lazy(OPEN, "score", "min", 30, steps=450), loss, workers=2)
    for trial in done.trials:
        peak, steps, warmup, decay = trial.config["lr"].arguments[:4]
        assert 1e-3 <= peak <= 1e-1
        assert steps == 30
        assert 1 <= warmup < 4
        assert 3 <= decay <= 12
    members = set(LATE)
    done = tune(hippo.Lazy(LATE, "score", "min", 30, steps=450), loss)
    assert {trial.config for trial in done.trials} <= members
    assert len({trial.config for trial in done.trials}) == len(done.trials)


def test_a_space_that_is_smaller_than_the_budget_is_searched_to_its_end() -> None:
    done = tune(hippo.Lazy(LATE, "score", "min", 30, steps=30 * 48), loss, workers=3)
    assert {trial.config for trial in done.trials} == set(LATE)


def test_it_finds_more_than_chance_does_with_the_same_steps() -> None:
    def found(tuner: hippo.tuners.Tuner) -> float:
        return float(simulated(tuner).best.metrics["loss"])

    lazy = [found(hippo.Lazy(OPEN, "loss", "min", 30, steps=360, seed=seed)) for seed in range(3)]
    chance = [found(hippo.RandomSearch(OPEN, "loss", "min", 30, trials=12, seed=seed)) for seed in range(3)]
    assert sum(lazy) < sum(chance)


def test_what_it_recommends_is_no_stroke_of_luck() -> None:
    lucky = Config({"lr": WSD(0.04, 30, decay=3, shape="linear"), "bs": 16})
    executor = Simulated(1, metrics=lambda config, step: {"loss": loss(config, step) - 9 * (config == lucky)})
    with Study("lucky", Idle, executor=executor, audit=0) as study:
        report = study.tune(hippo.GridSearch(LATE, "loss", "min", 30), progress=False)
    assert report.best.config == lucky
    recommended = hippo.Lazy(LATE, "loss", "min", 30, steps=300).recommend(report).config
    assert loss(recommended, 30) <= sorted(loss(config, 30) for config in LATE)[len(LATE) // 8]


def test_a_sampler_that_is_given_prices_shares_more() -> None:
    def rate(cost_aware: bool) -> float:
        tuner = hippo.OptunaSearch(LATE, "loss", "min", 30, trials=20, cost_aware=cost_aware)
        return simulated(tuner).work.merge_rate

    assert rate(cost_aware=True) > rate(cost_aware=False)


def test_features_tell_schedules_apart_and_nothing_else() -> None:
    features = Features(list(LATE), 30)
    rows = {tuple(row) for row in features.of(LATE)}
    assert len(rows) == len(LATE)
    one, same = Config({"lr": 0.1, "bs": 16}), Config({"lr": MultiStep(0.1, [40], 0.5), "bs": 16})
    assert features.of([one]).tolist() == features.of([same]).tolist()
    constants = hippo.Grid({"lr": [0.1, 0.2], "optimizer": ["adam", "sgd"]})
    assert Features(list(constants), 30).of(constants).shape == (4, 2)


def test_too_few_steps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="steps is 29, and max_steps is 30"):
        hippo.Lazy(LATE, "loss", "min", 30, steps=29)
