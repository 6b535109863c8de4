"""Workers in virtual time: when things happen, what is measured, and that it is the same every time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import few_examples
from executors.conformance import LeaseConformance
from executors.rig import Rig
from executors.virtual import Asks, Outcome, tune
from hippotune.errors import InvalidInput, TrainerError
from hippotune.executors.simulated.executor import Simulated
from hippotune.executors.simulated.metrics import MadeUp
from hippotune.executors.simulated.recorded import Recorded
from hippotune.executors.simulated.times import ScalingCurve, StepTimes
from hippotune.plan.facts import Position
from hippotune.plan.plan import Plan, unique_steps
from hippotune.protocol.events import (
    CheckpointSaved,
    LeaseFinished,
    LeaseStarted,
    MetricsReported,
    Progressed,
    StepsMissed,
    WorkerJoined,
    WorkerLost,
)
from hippotune.protocol.proof import ProofPolicy
from hippotune.sequences import Config, Constant, Exponential, MultiStep, Piecewise, Warmup
from hippotune.sequences.custom import Function
from hippotune.spaces.space import Grid
from hippotune.tuners.asha import ASHA
from hippotune.tuners.base import Trials, Tuner
from hippotune.tuners.grid_search import GridSearch
from hippotune.tuners.successive_halving import SuccessiveHalving


class TestConformance(LeaseConformance):
    @classmethod
    def make_executor(cls) -> Simulated:
        return Simulated(2, startup=3, save=2.5)

    def hold(self, rig: Rig, step: int) -> None:
        """Let as much time go by as `step` steps take, with the other worker as the clock."""
        clock = rig.executor
        until = clock.now() + step
        rig.run(step, worker=1)
        while clock.now() < until:
            clock.advance()


SPACE = Grid(
    {
        "lr": [Constant(0.1), MultiStep(0.1, [4], 0.1), MultiStep(0.1, [7], 0.1), Exponential(0.1, 0.9)],
        "bs": [128, MultiStep(128, [5], 2)],
        "optimizer": ["adam", "sgd"],
    }
)
A = Config({"lr": 0.1})
B = Config({"lr": MultiStep(0.1, [6], 0.1)})


# When things happen.


def test_a_trial_takes_its_steps_and_its_evaluation() -> None:
    outcome = tune(Simulated(1, seconds_per_step=3.0, evaluate=0.5), Asks((A, 10)))
    # The very first lease is probed: one more evaluation, before the first step.
    assert outcome.seconds == outcome.worker_seconds == 0.5 + 30.0 + 0.5
    assert outcome.trained == 10


def test_workers_are_up_when_their_startup_is_over() -> None:
    outcome = tune(Simulated(2, startup=40.0), Asks((A, 10)))
    assert outcome.times(WorkerJoined) == [40.0, 40.0]
    assert outcome.seconds == 50.0
    assert outcome.worker_seconds == 10.0


def test_saving_goes_on_beside_training() -> None:
    outcome = tune(Simulated(1, save=4.0), Asks((A, 10), (B, 10)))
    assert outcome.times(LeaseFinished) == [10.0, 14.0]
    assert outcome.times(CheckpointSaved) == [6.0 + 4.0, 10.0 + 4.0, 14.0 + 4.0]


def test_who_saves_faster_than_the_writer_writes_has_to_wait() -> None:
    branches = [(Config({"lr": MultiStep(0.1, [at], 0.1)}), 10) for at in (1, 2, 3)]
    outcome = tune(Simulated(1, save=10.0), Asks((A, 10), *branches))
    # Written from 1 on, waiting at 2; at 3 there is no room until the first is done, at 11.
    assert outcome.times(CheckpointSaved)[:4] == [11.0, 21.0, 31.0, 41.0]
    assert outcome.times(LeaseFinished)[0] == 11.0 + 7.0 + 3.0


def test_going_on_from_the_state_that_a_worker_holds_needs_no_loading() -> None:
    class Onwards(Asks):
        async def run(self, trials: Trials) -> None:
            (trial,) = await trials.all(trials.submit(self.group))
            await trials.all(trials.submit(type(self.group).of([trial.trial], 20)))

    outcome = tune(Simulated(1, load=100.0), Onwards((A, 10)))
    assert outcome.seconds == 20.0
    branch = tune(Simulated(1, load=100.0), Asks((A, 10), (B, 10)))
    assert branch.seconds == 10.0 + 100.0 + 4.0
    assert [event.seconds for _, event in branch.heard if isinstance(event, LeaseStarted)] == [0.0, 100.0]


def test_a_branch_behind_the_worker_is_missed_and_trained_from_the_nearest_checkpoint() -> None:
    class Late(Asks):
        async def run(self, trials: Trials) -> None:
            trials.submit(self.group)
            await trials.next()  # at step 8 of 10
            trials.submit(type(self.group).of([B], 10))
            while trials.open:
                await trials.next()

    outcome = tune(Simulated(1), Late((A, 10), every=8))
    assert outcome.trained == 20  # nothing was kept before step 8, and B leaves at 6


def test_an_update_in_the_middle_of_a_stretch_finds_the_worker_where_the_clock_says() -> None:
    class Meanwhile(Asks):
        """Asks for a branch of a trial that is under way when a shorter one is done."""

        async def run(self, trials: Trials) -> None:
            trials.submit(self.group)
            await trials.next()
            trials.submit(type(self.group).of([B], 10))
            while trials.open:
                await trials.next()

    for clock, trained, missed in ((4, 4 + 10 + 4, 0), (6, 6 + 10 + 10, 1), (7, 7 + 10 + 10, 1)):
        other = Config({"lr": 0.5})
        outcome = tune(Simulated(2), Meanwhile((A, 10), (other, clock)))
        assert outcome.trained == trained
        assert len(outcome.times(StepsMissed)) == missed


def test_a_lease_that_nobody_needs_any_more_stops_at_the_end_of_its_step() -> None:
    class Fickle(Asks):
        async def run(self, trials: Trials) -> None:
            long, _ = trials.submit(self.group)
            await trials.next()
            trials.withdraw(long)

    times = {0.1: 1.0, 0.5: 0.35}
    outcome = tune(
        Simulated(2, seconds_per_step=lambda hp, width: times[float(hp["lr"])]),
        Fickle((A, 1000), (Config({"lr": 0.5}), 10)),
    )
    finished = [(now, event.step) for now, event in outcome.heard if isinstance(event, LeaseFinished)]
    assert finished == [(3.5, 10), (4.0, 4)]


def test_a_lost_worker_costs_the_steps_since_the_last_checkpoint() -> None:
    outcome = tune(Simulated(1, losses=[(8, 0, 5.0)]), Asks((A, 10), (B, 10)))
    # Lost at step 8 with a checkpoint at 6, back at 13, and then 4 steps for each of the two.
    assert outcome.times(WorkerLost) == [8.0]
    assert outcome.times(WorkerJoined) == [0.0, 13.0]
    assert outcome.seconds == 13.0 + 4.0 + 4.0


def test_a_stage_that_is_saved_on_its_way_loses_no_more_than_the_interval() -> None:
    outcome = tune(Simulated(1, losses=[(28, 0, 5.0)]), Asks((A, 40)), every=10.0)
    # Lost at step 28 with a checkpoint at 20, back at 33; then 20 more steps, saved at 30 and in the end.
    assert outcome.times(CheckpointSaved) == [10.0, 20.0, 33.0 + 10.0, 33.0 + 20.0]
    assert outcome.seconds == 33.0 + 20.0


def test_saving_on_the_way_takes_what_saving_takes_and_waits_until_the_last_is_durable() -> None:
    outcome = tune(Simulated(1, save=7.5, losses=[(34, 0, 5.0)]), Asks((A, 40)), every=5.0)
    # The second begins after the step in which the first is written, at 12.5; lost are the steps from 21 on.
    assert outcome.times(CheckpointSaved)[:3] == [5.0 + 7.5, 13.0 + 7.5, 21.0 + 7.5]
    assert outcome.seconds == 39.0 + (40 - 21)


def test_a_save_under_way_is_lost_with_its_worker() -> None:
    outcome = tune(Simulated(1, save=4.0, losses=[(8, 0, 5.0)]), Asks((A, 10), (B, 10)))
    assert outcome.times(CheckpointSaved)[0] == 13.0 + 6.0 + 4.0
    assert outcome.seconds == 13.0 + 10.0 + 4.0


def test_a_worker_that_does_not_come_back_leaves_its_work_to_the_others() -> None:
    outcome = tune(Simulated(2, losses=[(3, 0)]), GridSearch(SPACE, "score", "max", 10))
    assert len(outcome.results) == len(SPACE)
    assert {span.worker for span in outcome.spans if span.began >= 3} == {1}


def test_tuners_side_by_side_share_the_clock_and_the_work() -> None:
    tuners: list[Tuner] = [Asks((A, 10)), Asks((B, 20)), Asks((A, 5))]
    outcome = tune(Simulated(2), *tuners)
    assert outcome.trained == 10 + 14
    assert outcome.seconds == 20.0


# Laws.

intervals = st.sampled_from([None, 2.0, 5.0])


@st.composite
def executors(draw: st.DrawFn) -> Simulated:
    workers = draw(st.integers(1, 4))
    seconds = st.sampled_from([0.0, 0.4, 1.0, 7.0])
    losses = draw(
        st.lists(st.tuples(st.floats(7, 60), st.integers(0, workers - 1), st.floats(0.1, 9)), max_size=2)
    )
    return Simulated(
        workers,
        seconds_per_step=draw(st.sampled_from([1.0, _by_batch_size])),
        startup=draw(seconds),
        load=draw(seconds),
        save=draw(seconds),
        evaluate=draw(seconds),
        losses=losses,
        seed=draw(st.integers(0, 3)),
    )


def _by_batch_size(hp: Mapping[str, Any], width: float) -> float:
    return 0.7 if hp["bs"] == 128 else 1.3


TUNERS: list[Tuner] = [
    GridSearch(SPACE, "score", "max", 10),
    SuccessiveHalving(SPACE, "score", "max", 2, 10, 2),
    ASHA(SPACE, "score", "max", 2, 10, 2),
]


@few_examples
@given(executor=executors(), tuner=st.sampled_from(TUNERS), share=st.booleans(), every=intervals)
def test_the_same_study_gives_the_same_events(
    executor: Simulated, tuner: Tuner, share: bool, every: float | None
) -> None:
    first, second = (tune(executor, tuner, share=share, every=every) for _ in range(2))
    assert first.heard == second.heard


@few_examples
@given(executor=executors(), tuner=st.sampled_from(TUNERS[:2]), every=intervals)
def test_sharing_changes_no_result(executor: Simulated, tuner: Tuner, every: float | None) -> None:
    def results(share: bool) -> dict[tuple[int, int], Mapping[str, float] | None]:
        return {
            (each.trial.number, each.step): each.metrics
            for each in tune(executor, tuner, share=share, every=every).results
        }

    assert results(True) == results(False)


@few_examples
@given(workers=st.integers(1, 9), step=st.integers(1, 12))
def test_a_grid_takes_no_less_than_its_longest_chain_and_its_share_of_the_work(
    workers: int, step: int
) -> None:
    outcome = tune(Simulated(workers), GridSearch(SPACE, "score", "max", step))
    plan = Plan()
    unique = unique_steps([(plan.place(config, step)[0], step) for config in SPACE.configs()])
    assert outcome.trained == outcome.worker_seconds == unique
    assert outcome.seconds >= max(step, unique / workers)
    assert sum(event.seconds for _, event in outcome.heard if isinstance(event, Progressed)) == unique


@given(
    first=st.integers(0, 30),
    steps=st.integers(0, 60),
    elapsed=st.floats(0, 100),
    change=st.integers(1, 50),
)
def test_time_by_arithmetic_is_the_sum_over_steps(
    first: int, steps: int, elapsed: float, change: int
) -> None:
    config = Config({"lr": Exponential(0.1, 0.9), "bs": MultiStep(128, [change, change + 7], 2)})
    times = StepTimes(lambda hp, width: float(hp["bs"]) / 128 / width)
    each = [float(config["bs"].value(at)) / 128 / 2 for at in range(first, first + steps)]
    assert times.seconds(config, first, first + steps, 2) == pytest.approx(sum(each))
    reached = times.steps(config, first, first + steps, elapsed, 2)
    assert sum(each[: reached - first]) <= elapsed + 1e-6
    assert reached == first + steps or sum(each[: reached - first + 1]) > elapsed - 1e-6


def test_a_function_is_asked_once_for_the_values_that_it_looks_at() -> None:
    asked: list[object] = []

    def seconds(hp: Mapping[str, Any], width: float) -> float:
        asked.append(hp["bs"])
        return 1.0

    times = StepTimes(seconds)
    for decay in (0.9, 0.95, 0.99):
        config = Config({"lr": Exponential(0.1, decay), "bs": MultiStep(128, [50], 2)})
        assert times.seconds(config, 0, 100_000, 1.0) == 100_000
    assert asked == [128, 256.0]


def test_a_function_of_a_value_that_changes_at_every_step_is_followed() -> None:
    config = Config({"lr": Exponential(1.0, 0.5)})
    assert StepTimes(lambda hp, width: float(hp["lr"])).seconds(config, 0, 3, 1.0) == 1.75


def test_a_scaling_curve_is_straight_between_what_was_measured() -> None:
    curve = ScalingCurve({1: 1.0, 2: 1.870, 4: 3.421, 8: 5.598})
    assert [curve.speed_up(width) for width in (0.5, 1, 2, 3, 8)] == pytest.approx(
        [0.5, 1.0, 1.870, (1.870 + 3.421) / 2, 5.598]
    )
    with pytest.raises(InvalidInput, match="nothing of width 16; it was measured at 1, 2, 4, 8"):
        curve.speed_up(16)


def test_without_a_curve_speed_is_in_proportion_to_the_width() -> None:
    assert StepTimes(6.0).seconds(A, 0, 10, 4) == 15.0
    assert StepTimes(6.0, {1: 1, 4: 3}).seconds(A, 0, 10, 4) == 20.0


# What is measured.


def test_made_up_metrics_have_the_names_that_are_asked_for_and_go_the_right_way() -> None:
    curves = MadeUp(seed=0)
    early, late = (curves(A, step, frozenset({"val_acc", "loss"})) for step in (1, 100))
    assert 0 < early["val_acc"] < late["val_acc"] < 1
    assert early["loss"] > late["loss"] > 0
    assert set(curves(A, 1, frozenset())) == {"score"}


def test_made_up_metrics_differ_between_configs_and_seeds() -> None:
    names = frozenset({"score"})
    values = {MadeUp(seed)(config, 30, names)["score"] for seed in range(3) for config in SPACE.configs()}
    assert len(values) == 3 * len(SPACE)


@given(step=st.integers(0, 300), at=st.integers(1, 300), seed=st.integers(0, 5))
def test_made_up_metrics_depend_on_nothing_but_the_values_so_far(step: int, at: int, seed: int) -> None:
    curves = MadeUp(seed)
    here = Config({"lr": Piecewise([0.1, 0.05], [at]), "bs": 128})
    there = Config(
        {"lr": Warmup(at, Exponential(0.1, 0.5)) if step == 0 else Piecewise([0.1, 0.7], [at]), "bs": 128.0}
    )
    written_otherwise = Config({"lr": Function(lambda now: 0.1 if now < at else 0.05), "bs": 128})
    names = frozenset({"score"})
    assert curves(here, step, names) == curves(written_otherwise, step, names)
    if step <= at:
        assert curves(here, step, names) == curves(there, step, names)


def test_metrics_can_be_a_formula() -> None:
    outcome = tune(Simulated(1, metrics=lambda config, step: {"score": 2.0 * step}), Asks((A, 4), every=2))
    assert [(result.step, result.metrics) for result in outcome.results] == [
        (2, {"score": 4.0}),
        (4, {"score": 8.0}),
    ]


def test_a_formula_that_raises_fails_its_trials_and_no_others() -> None:
    def formula(config: Config, step: int) -> dict[str, float]:
        return {"score": 1 / (config["lr"].value(step - 1) - 0.1)}  # type: ignore[operator]

    outcome = tune(Simulated(1, metrics=formula), Asks((A, 4), (Config({"lr": 0.2}), 4)))
    failed, fine = sorted(outcome.results, key=lambda result: result.trial.number)
    assert failed.error is not None
    assert failed.error.endswith("ZeroDivisionError: float division by zero")
    assert 'return {"score"' in failed.error
    assert fine.metrics == {"score": 10.0}


def test_a_formula_without_the_metric_that_a_tuner_reads_ends_the_study() -> None:
    with pytest.raises(TrainerError, match="does not return 'score'; it returns 'loss'"):
        tune(Simulated(1, metrics=lambda config, step: {"loss": 1.0}), Asks((A, 4)))


def test_a_table_is_found_by_values_however_configs_are_written() -> None:
    recorded = Recorded({Config({"lr": Exponential(0.1, 1.0)}): {4: {"score": 0.5}}})
    assert recorded(A, 4) == {"score": 0.5}
    # B is the same up to step 6.
    assert recorded(B, 4) == {"score": 0.5}


def test_a_record_can_be_a_plan_of_trials_that_were_kept_apart() -> None:
    plan = Plan()
    for number, (config, score) in enumerate([(A, 0.1), (B, 0.2)]):
        node, _ = plan.place(config, 10, isolation_key=str(number))
        plan.measure(Position(node.id, 10), {"score": score})
    recorded = Recorded(plan)
    assert [recorded(config, 10)["score"] for config in (A, B)] == [0.1, 0.2]


def test_what_was_not_recorded_is_refused_unless_it_lies_between_and_that_is_asked_for() -> None:
    table = {A: {4: {"score": 0.5}, 8: {"score": 0.7}}}
    with pytest.raises(InvalidInput, match=r"step 6 of .*; its steps are 4, 8; .*interpolate=True"):
        Recorded(table)(A, 6)
    between = Recorded(table, interpolate=True)
    assert between(A, 6)["score"] == pytest.approx(0.6)
    for step in (2, 9):
        with pytest.raises(InvalidInput, match=f"step {step} "):
            between(A, step)


def test_a_study_that_leaves_the_record_ends_with_a_word_about_it() -> None:
    with pytest.raises(TrainerError, match="no metrics were recorded at step 5"):
        tune(Simulated(1, metrics={A: {4: {"score": 0.5}}}), Asks((A, 5)))


@pytest.mark.parametrize("step", [1, 2])
def test_a_step_that_was_never_measured_is_enough_for_a_proof_and_no_result(step: int) -> None:
    table, proofs = {A: {4: {"score": 0.5}}}, ProofPolicy("Net")
    (result,) = tune(Simulated(1, metrics=table), Asks((A, 4)), proofs=proofs).results
    assert result.metrics == {"score": 0.5}
    with pytest.raises(TrainerError, match=f"no metrics were recorded at step {step}"):
        tune(Simulated(1, metrics=table), Asks((A, step), (A, 4)), proofs=proofs)


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"workers": 0}, "workers is 0"),
        ({"workers": 2, "seconds_per_step": 0}, "seconds_per_step is 0; expected a finite number above 0"),
        ({"workers": 2, "save": -1}, "save is -1; expected a finite number at least 0"),
        ({"workers": 2, "load": math.nan}, "load is nan"),
        ({"workers": 2, "scaling": {}}, "scaling is {}"),
        ({"workers": 2, "scaling": {1: 0}}, "scaling at width 1 is 0"),
        ({"workers": 2, "scaling": {1: 1}, "seconds_per_step": lambda hp, width: 1.0}, "leave out scaling"),
        ({"workers": 2, "losses": [(1, 2)]}, "with a worker from 0 to 1"),
        ({"workers": 2, "losses": [(1, 0)], "startup": 2}, "no worker is up before"),
        ({"workers": 2, "losses": [(1, 0), (2, 1)]}, "losses leaves no worker"),
        ({"workers": 2, "losses": [3]}, r"losses holds 3; expected \(time, worker\)"),
        ({"workers": 2, "seed": "3"}, "seed is '3'; expected a whole number"),
        ({"workers": 2, "metrics": 3}, "metrics is 3; expected a function"),
        ({"workers": 2, "metrics": {}}, "there are no metrics in"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Simulated(**arguments)


def test_a_function_that_returns_no_time_is_told_with_what_it_looked_at() -> None:
    times = StepTimes(lambda hp, width: -float(hp["bs"]))
    with pytest.raises(InvalidInput, match=r"seconds_per_step\({'bs': 128}, 1\) is -128.0"):
        times.seconds(Config({"bs": 128, "lr": 0.1}), 0, 1, 1.0)


def _metrics(outcome: Outcome) -> list[MetricsReported]:
    return [event for _, event in outcome.heard if isinstance(event, MetricsReported)]


def test_every_position_is_measured_once() -> None:
    outcome = tune(Simulated(3), GridSearch(SPACE, "score", "max", 10))
    assert len(_metrics(outcome)) == len(SPACE)
