"""What a tuner would cost, before it is run and while it is half done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hippotune as hippo
from hippotune.errors import InvalidInput
from hippotune.executors.simulated.executor import Simulated
from hippotune.plan.facts import Checkpoint, CheckpointKept, MetricsRecorded, Position, SpanRecorded
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.scheduling.profile import Profile
from hippotune.sequences import Config, Exponential, MultiStep
from hippotune.spaces.space import Grid
from hippotune.store.catalog import open_store
from hippotune.study.estimates import (
    Cost,
    Estimate,
    estimate,
    format_estimates,
)
from hippotune.study.step_times import Timed, measured_effects, on_one_slot
from hippotune.tuners.grid_search import GridSearch
from hippotune.tuners.successive_halving import SuccessiveHalving


class Nothing(hippo.Trainer):
    def setup(self, hp: Mapping[str, Any]) -> None: ...
    def train(self) -> None: ...
    def evaluate(self) -> Mapping[str, float]:
        raise AssertionError("nothing is to be trained")


SPACE = Grid({"lr": [0.1, MultiStep(0.1, [60], 0.1)], "bs": [128, 256]})
TUNER = GridSearch(SPACE, "acc", "max", 100)


def study(home: Path, **options: Any) -> hippo.Study:
    return hippo.Study("estimated", Nothing, home=home, executor=Simulated(1), **options)


def stored(home: Path) -> hippo.Study:
    return hippo.Study("estimated", Nothing, home=home, executor=hippo.Local(workers=1))


def trained(lease: int, node: Node, last: int, seconds: float) -> SpanRecorded:
    """Return the record of a lease that trained for some seconds, and started and waited for as long."""
    began = 1000.0 * lease
    return SpanRecorded(0, lease, node.id, "train", 0, last, began, began + 2 * seconds, 1.0, seconds=seconds)


def write(study: hippo.Study, facts: list[Any]) -> None:
    with open_store(study.home) as catalog:
        catalog.bind(study.name, study.key)
        store = catalog.plan(study.key)
        store.write(facts)
        store.close()


def test_alone_and_shared_on_any_number_of_workers(tmp_path: Path) -> None:
    one, many = estimate(study(tmp_path), TUNER, [1, 10], seconds_per_step=36.0)
    assert one.alone == Cost(400, pytest.approx(4.0), pytest.approx(4.0))
    # Three steps of the first trial and two after branches are repeated, to prove that it resumes exactly.
    assert one.shared == Cost(280, pytest.approx(2.85), pytest.approx(2.85))
    assert many.alone == Cost(400, pytest.approx(4.0), pytest.approx(1.0))
    assert many.shared == Cost(280, pytest.approx(2.85), pytest.approx(1.0))
    assert one.work_ratio == pytest.approx(400 / 285)
    assert many.time_ratio == pytest.approx(1.0)


def test_what_a_tuner_stops_early_is_not_counted(tmp_path: Path) -> None:
    tuner = SuccessiveHalving(SPACE, "acc", "max", 10, 40, 4, rungs="trials")
    (row,) = estimate(study(tmp_path), tuner, [4], 1.0)
    assert row.alone.steps == 4 * 10 + 30


def test_without_measurements_a_step_is_a_second_and_that_is_said(tmp_path: Path) -> None:
    (row,) = estimate(study(tmp_path), TUNER, [1])
    assert row.alone.hours == pytest.approx(400 / 3600)
    assert "nothing has been measured yet" in row.basis
    assert not list(tmp_path.iterdir())


def test_seconds_per_step_can_be_a_function_of_values(tmp_path: Path) -> None:
    (row,) = estimate(study(tmp_path), TUNER, [1], lambda hp, width: 1.0 if hp["bs"] == 128 else 3.0)
    assert row.shared.worker_hours == pytest.approx((140 * 1.0 + 140 * 3.0) / 3600, rel=0.02)


def test_what_the_plan_holds_is_done_and_says_how_long_a_step_takes(tmp_path: Path) -> None:
    real = stored(tmp_path)
    plan = Plan()
    facts: list[Any] = []
    for place, (batch_size, seconds) in enumerate([(128, 200.0), (256, 600.0)]):
        node, added = plan.place(Config({"lr": 0.1, "bs": batch_size}), 100)
        facts += added
        facts.append(CheckpointKept(Position(node.id, 60), Checkpoint(f"{node.id}-60", 1, "")))
        facts.append(MetricsRecorded(place + 1, Position(node.id, 100), {"acc": 0.5}))
        facts.append(trained(place, node, 100, seconds))
    write(real, facts)
    (row,) = estimate(real, TUNER, [1])
    assert row.alone.steps == 400
    assert row.alone.worker_hours == pytest.approx((200 * 2.0 + 200 * 6.0) / 3600, rel=0.02)
    # Both flat learning rates are done; what falls at 60 starts from the checkpoints there. Nothing was
    # proved yet: two steps are trained for that, and three repeated.
    assert row.shared.steps == 80
    assert row.shared.worker_hours == pytest.approx((40 * 2.0 + 40 * 6.0 + 5 * 2.0) / 3600, rel=0.02)
    assert row.basis == "4 s a step, by bs, measured over 200 steps of the plan"


def test_a_prediction_starts_with_the_paces_that_were_recorded(tmp_path: Path) -> None:
    real, plan = stored(tmp_path), Plan()
    facts: list[Any] = []
    seconds = {1: 100.0, 2: 10.0, 3: 10.0}
    for batch_size in seconds:
        node, added = plan.place(Config({"bs": batch_size}), 10)
        facts += [*added, CheckpointKept(Position(node.id, 10), Checkpoint(f"{node.id}-10", 1, ""))]
        facts.append(trained(batch_size, node, 10, seconds[batch_size]))
    write(real, facts)
    ends = {1: 60, 2: 110, 3: 110}
    tuner = hippo.TrialList([({"bs": each}, end) for each, end in ends.items()], "acc", "max")
    (row,) = estimate(real, tuner, [2], lambda hp, width: seconds[int(hp["bs"])] / 10)
    # The slow trial begins at once, though it has the fewest steps left; the others share the second worker.
    assert row.shared.hours * 3600 == pytest.approx(500, rel=0.1)


def test_what_was_trained_wide_or_packed_is_not_mistaken_for_steps_of_one_worker() -> None:
    wide = SpanRecorded(0, 0, 0, "train", 0, 100, 0.0, 60.0, width=2.0, seconds=50.0)
    help_ = SpanRecorded(1, 0, 0, "help", 0, 100, 0.0, 60.0, width=0.0)
    packed = SpanRecorded(0, 1, 0, "train", 100, 200, 60.0, 270.0, width=0.5, seconds=200.0)
    alone = SpanRecorded(0, 2, 0, "train", 200, 300, 270.0, 370.0, seconds=90.0)
    speeds = Profile({2: 1.8})
    assert on_one_slot([wide, help_, packed, alone], speeds) == [Timed(0, 200, 100, 90.0)]
    estimated = on_one_slot([wide, help_, packed], speeds)
    assert [timed.seconds for timed in estimated] == pytest.approx([90.0, 100.0])


def test_a_width_policy_is_at_work_in_estimates_too(tmp_path: Path) -> None:
    long = GridSearch(Grid({"lr": [0.1]}), "acc", "max", 100)
    (plain,) = estimate(study(tmp_path), long, [4], seconds_per_step=36.0)
    policy = hippo.Fluid(scaling={2: 1.8, 4: 3.0})
    (wide,) = estimate(study(tmp_path, width=policy), long, [4], seconds_per_step=36.0)
    assert plain.shared == Cost(100, pytest.approx(1.03), pytest.approx(1.0))
    assert wide.shared.steps == 100
    narrow = 0.05  # until the rehearsal is over and the width is proved
    assert 1 / 3.0 < wide.shared.hours < 1 / 3.0 + narrow
    assert wide.shared.worker_hours == pytest.approx(4 / 3.0, rel=0.1)


def test_factors_are_found_for_each_hyper_parameter_and_noise_is_left_out() -> None:
    timed = []
    for number, (batch_size, depth, lr) in enumerate(
        (batch_size, depth, lr) for batch_size in (64, 128) for depth in (1, 2, 4) for lr in (0.1, 0.2)
    ):
        seconds = 50 * (1.0 if batch_size == 64 else 0.5) * depth * (1.01 if lr == 0.1 else 0.99)
        config = Config({"bs": batch_size, "depth": depth, "lr": lr, "wd": Exponential(0.1, 0.9)})
        timed.append((config, Timed(number, 0, 50, seconds)))
    effects = measured_effects(timed)
    assert set(effects) == {"bs", "depth"}
    assert effects["bs"][64] / effects["bs"][128] == pytest.approx(2.0, rel=0.02)
    assert effects["depth"][4] / effects["depth"][1] == pytest.approx(4.0, rel=0.03)


def test_a_table_shows_both_ways_and_what_sharing_saves() -> None:
    rows = [
        Estimate(1, Cost(400, 112.4, 112.4), Cost(280, 45.9, 45.9), "1 s a step, as given"),
        Estimate(40, Cost(400, 112.4, 3.1), Cost(280, 45.9, 2.0), "1 s a step, as given"),
    ]
    assert format_estimates(rows).splitlines() == [
        "workers   worker-hours           hours to the end",
        "          alone  shared          alone  shared",
        "      1     112    45.9  2.45x     112    45.9  2.45x",
        "     40     112    45.9  2.45x    3.10    2.00  1.55x",
        "(1 s a step, as given)",
    ]


def test_where_nothing_is_left_a_table_says_so() -> None:
    rows = [Estimate(2, Cost(400, 112.4, 56.2), Cost(0, 0.0, 0.0), "1 s a step, as given")]
    assert format_estimates(rows).splitlines() == [
        "workers   worker-hours       hours to the end",
        "          alone  shared      alone  shared",
        "      2     112    0.00  –    56.2    0.00  –",
        "(1 s a step, as given)",
        "(nothing is left to train: the plan holds all results)",
    ]


def test_short_studies_are_told_in_minutes_or_seconds() -> None:
    def table(hours: float) -> str:
        cost = Cost(1, hours, hours)
        return format_estimates([Estimate(1, cost, cost, "")])

    assert "worker-seconds" in table(0.01)
    assert "minutes to the end" in table(1.0)


def test_no_workers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="workers is empty"):
        estimate(study(tmp_path), TUNER, [])
    with pytest.raises(InvalidInput, match="workers is 0"):
        estimate(study(tmp_path), TUNER, [0])
