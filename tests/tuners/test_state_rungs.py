"""Trials that have not parted yet have one state: rungs compare states, and no score tells them apart."""

from __future__ import annotations

import asyncio
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable
from inspect import signature
from itertools import islice, pairwise, product

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hippotune as hippo
from examples import few_examples
from hippotune.errors import InvalidInput
from hippotune.plan.plan import Plan, unique_steps
from hippotune.sequences import Config, MultiStep
from hippotune.spaces.in_force import makes_a_difference
from hippotune.tuners import Trial, Tuner
from tuners.scripted import Sharing

RUNGS = [3, 9, 27]


def score(config: Config, step: int) -> float:
    """A score that depends on what was in force before `step` and on nothing else."""
    values = [[repr(config[name].value(at)) for at in range(step)] for name in sorted(config)]
    return zlib.crc32(repr(values).encode()) % 101


def run(tuner: Tuner, workers: int = 1000) -> Sharing:
    shared = Sharing(score, workers)
    asyncio.run(tuner.run(shared))
    return shared


@st.composite
def spaces(draw: st.DrawFn) -> hippo.Grid:
    """Spaces of which many configs have one state for long."""
    steps = st.integers(1, 26)
    milestones = draw(st.lists(steps, min_size=2, max_size=8, unique=True))
    factors = draw(st.lists(st.sampled_from([2, 3]), min_size=1, max_size=2, unique=True))
    sizes = draw(st.lists(st.sampled_from([16, 32, 64]), min_size=1, max_size=3, unique=True))
    rates = [MultiStep(1000, [at], factor) for at in milestones for factor in factors]
    return hippo.Grid({"lr": rates, "bs": sizes})


def at_rung(done: Sharing, step: int) -> dict[Hashable, list[Trial]]:
    """The trials that have a result at a step, by their state there."""
    found: defaultdict[Hashable, list[Trial]] = defaultdict(list)
    for number in sorted({number for kind, number, at in done.log if kind == "hear" and at == step}):
        found[done.state(done.trials[number], step)].append(done.trials[number])
    return found


def gone_on(done: Sharing, step: int) -> set[Trial]:
    return {done.trials[number] for kind, number, at in done.log if kind == "ask" and at > step}


def unique(trials: Collection[Trial], start: int, end: int) -> int:
    """The unique steps that trials of one state take from one rung to the next."""
    plan = Plan()
    if not trials:
        return 0
    return unique_steps([(plan.place(trial.config, end)[0], end) for trial in trials]) - start


Make = Callable[[hippo.Grid], Tuner]
SYNCHRONOUS: dict[str, Make] = {
    "halving": lambda space: hippo.SuccessiveHalving(space, "score", "max", 3, 27, 3),
    "early stop": lambda space: hippo.EarlyStop(
        space, "score", "max", RUNGS, [max(len(space) // 2, 1), max(len(space) // 5, 1)]
    ),
    "hyperband": lambda space: hippo.Hyperband(space, "score", "max", 3, 27, 3),
    "bohb": lambda space: hippo.BOHB(space, "score", "max", 3, 27, 3),
}
ASYNCHRONOUS: dict[str, Make] = {
    "asha": lambda space: hippo.ASHA(space, "score", "max", 3, 27, 3),
    "asha with a sampler that repeats itself": lambda space: hippo.ASHA(
        space, "score", "max", 3, 27, 3, trials=len(space), sampler=optuna.samplers.TPESampler(seed=0)
    ),
    "pasha": lambda space: hippo.PASHA(space, "score", "max", 3, 27, 3),
    "hypersched": lambda space: hippo.HyperSched(space, "score", "max", 3, 27, 3),
    "median": lambda space: hippo.MedianStopping(space, "score", "max", 27, every=3, startup_trials=2),
    "median of averages": lambda space: hippo.MedianStopping(
        space, "score", "max", 27, every=3, startup_trials=2, rule="vizier"
    ),
    "pruner": lambda space: hippo.OptunaSearch(
        space, "score", "max", 27, trials=len(space), every=3, pruner=optuna.pruners.MedianPruner(2)
    ),
}


def races(tuner: Tuner, done: Sharing) -> list[set[Trial]]:
    """The trials that are compared with one another: those of each bracket, where there are brackets."""
    sizes = [rungs[0][0] for rungs in tuner.brackets()] if isinstance(tuner, hippo.Hyperband) else [None]
    trials = iter(done.trials)
    return [set(islice(trials, size)) for size in sizes]


@pytest.mark.parametrize("kind", [*SYNCHRONOUS, *ASYNCHRONOUS])
@few_examples
@given(space=spaces(), workers=st.integers(1, 4))
def test_no_comparison_separates_trials_of_one_state(kind: str, space: hippo.Grid, workers: int) -> None:
    tuner = (SYNCHRONOUS | ASYNCHRONOUS)[kind](space)
    done = run(tuner, 1000 if kind in SYNCHRONOUS else workers)
    deferred, reached = set(done.deferred), done.reached()
    for race, step in product(races(tuner, done), range(3, 27, 3)):
        cut = 0
        for trials in at_rung(done, step).values():
            together = race & set(trials)
            left = {trial for trial in together if reached[trial.number] == step}
            if left == together:
                assert not deferred & together
            else:
                assert left <= deferred
                cut += bool(left)
        assert cut <= 1 or kind in ASYNCHRONOUS


def test_every_tuner_that_has_rungs_or_a_pruner_is_among_them() -> None:
    public = [getattr(hippo, name) for name in hippo.__all__]
    tuners = [each for each in public if isinstance(each, type) and issubclass(each, Tuner)]
    comparing = {each for each in tuners if {"rungs", "pruner"} & {*signature(each).parameters}}
    space = hippo.Grid({"n": [1, 2]})
    assert {type(make(space)) for make in (SYNCHRONOUS | ASYNCHRONOUS).values()} == comparing


@given(space=spaces(), reduction=st.integers(2, 4))
def test_halving_spends_no_more_steps_than_the_same_number_of_trials_would(
    space: hippo.Grid, reduction: int
) -> None:
    done = run(hippo.SuccessiveHalving(space, "score", "max", 3, 27, reduction))
    rungs = sorted({step for kind, _, step in done.log if kind == "ask"})
    for index, (step, following) in enumerate(pairwise(rungs)):
        states = at_rung(done, step)
        quota = max(len(space) // reduction ** (index + 1), 1)
        first = {state: min(trial.number for trial in trials) for state, trials in states.items()}
        ranked = sorted(
            (-score(trial.config, step), first[state], trial.number, trial)
            for state, trials in states.items()
            for trial in trials
        )
        published = {trial for *_, trial in ranked[:quota]}
        on = gone_on(done, step)
        spent = sum(unique(on & set(each), step, following) for each in states.values())
        allowed = sum(unique(published & set(each), step, following) for each in states.values())
        assert spent <= allowed
        whole = [set(each) for each in states.values() if set(each) <= published]
        assert all(each <= on for each in whole)


@given(space=spaces(), order=st.randoms(use_true_random=False))
def test_who_goes_on_does_not_depend_on_the_order_of_finish(space: hippo.Grid, order: object) -> None:
    tuner = hippo.SuccessiveHalving(space, "score", "max", 3, 27, 3)
    expected = run(tuner)
    shuffled = Sharing(score, 1000, lambda running: order.randrange(running))  # type: ignore[attr-defined]
    asyncio.run(tuner.run(shuffled))
    assert shuffled.reached() == expected.reached()
    assert {*shuffled.deferred} == {*expected.deferred}


def test_trials_that_part_after_the_last_rung_do_not_turn_halving_into_a_grid() -> None:
    rates = [MultiStep(1000, [at], factor) for at in range(61, 117) for factor in range(2, 10)]
    done = run(hippo.SuccessiveHalving({"lr": rates}, "score", "max", 15, 120, 4))
    assert len(done.trials) == 448
    top = [number for number, step in done.reached().items() if step == 120]
    assert {step for number, step in done.reached().items() if number not in top} == {60}
    assert len(done.deferred) == 448 - len(top)
    assert len({number // 8 for number in top}) >= len(top) - 1  # spread over the steps where they part
    plan = Plan()
    spent = unique_steps([(plan.place(done.trials[number].config, 120)[0], 120) for number in top]) - 60
    assert spent <= 60 + 27 * 59  # of 28 trials by number, which part from step 61 on
    assert done.told == [
        "448 trials are equal until step 61: at the rungs before that they count as one, and go on together"
    ]


def test_schedules_that_have_not_differed_yet_go_on_together() -> None:
    rates = [MultiStep(1000, [90], factor) for factor in range(2, 14)]
    space = hippo.Grid({"lr": rates, "bs": [16, 32, 64]})
    done = run(hippo.SuccessiveHalving(space, "score", "max", 15, 120, 2))
    reached = done.reached()
    by_size = {
        size: sorted(reached[trial.number] for trial in done.trials if trial.config["bs"].value(0) == size)
        for size in (16, 32, 64)
    }
    first = sorted(by_size, key=lambda size: score(Config({"lr": rates[0], "bs": size}), 15))
    second = max(first[1:], key=lambda size: score(Config({"lr": rates[0], "bs": size}), 30))
    assert by_size.pop(first[0]) == [15] * 12
    assert by_size.pop(second) == [60] * 8 + [120] * 4
    assert by_size.popitem()[1] == [30] * 12
    assert len(done.deferred) == 8
    published = run(hippo.SuccessiveHalving(space, "score", "max", 15, 120, 2, rungs="trials"))
    assert published.told == []
    assert published.deferred == []


def test_parameters_are_in_force_once_they_have_made_a_difference() -> None:
    space = hippo.Grid({"lr": MultiStep(1000, [hippo.Choice(10, 20)], hippo.Choice(2, 3)), "bs": [1, 2]})
    drawn = dict.fromkeys(space.leaves, 0)
    by_step = {
        step: {name for name in drawn if makes_a_difference(space, drawn, name, step)} for step in (5, 11, 25)
    }
    assert by_step[5] == {"bs"}
    assert len(by_step[11]) == 3
    assert by_step[25] == by_step[11]


def test_other_rungs_are_refused() -> None:
    with pytest.raises(InvalidInput, match="rungs is 'nodes'; expected 'states'"):
        hippo.SuccessiveHalving({"n": [1, 2]}, "score", "max", 1, 4, rungs="nodes")


class Idle(hippo.Trainer):
    def train(self) -> None: ...

    def evaluate(self) -> dict[str, float]:
        return {}


def test_reports_say_what_was_deferred() -> None:
    rates = [MultiStep(1000, [at], 2) for at in range(10, 26)]
    executor = hippo.Simulated(2, metrics=lambda config, step: {"score": score(config, step)})
    with hippo.Study("deferred", Idle, executor=executor) as study:
        report = study.tune(hippo.SuccessiveHalving({"lr": rates}, "score", "max", 3, 27, 3), progress=False)
        further = [(trial.config, 27) for trial in report.deferred]
        taken_up = study.tune(hippo.TrialList(further, "score", "max"), progress=False)
    went_on = [trial for trial in report.trials if trial.step == 27]
    assert len(report.deferred) == len(report.trials) - len(went_on)
    assert f"deferred: {len(report.deferred)} trials, equal so far to others" in str(report)
    assert "hippo.TrialList trains them too" in str(report)
    assert {trial.step for trial in taken_up.trials} == {27}
