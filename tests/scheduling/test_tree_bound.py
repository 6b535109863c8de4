"""The bound of `bench/tree_bound.py`: what no schedule can beat, and some reach."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.test_core import POOL
from executors.virtual import Asks, tune
from hippotune import Config, Fluid, MultiStep, Simulated
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan, unique_steps
from hippotune.stages.tree import stage_tree

sys.path.append(str(Path(__file__).parents[2] / "bench"))
from tree_bound import earliest_end

SCALING: dict[float, float] = {1: 1.0, 2: 1.870, 4: 3.421}
LINEAR: dict[float, float] = {width: float(width) for width in range(1, 5)}


def asks_of(configs: list[Config], steps: int) -> list[tuple[Node, int]]:
    plan = Plan()
    return [(plan.place(config, steps)[0], steps) for config in configs]


def bound(configs: list[Config], steps: int, workers: int, scaling: dict[float, float]) -> float:
    return earliest_end(stage_tree(asks_of(configs, steps), scratch=True), workers, scaling)


def test_one_chain_is_trained_at_the_widest() -> None:
    assert bound([Config({"lr": 0.1})], 100, 8, SCALING) == pytest.approx(100 / 3.421)


def test_as_many_equal_chains_as_workers_are_trained_at_width_1() -> None:
    assert bound([Config({"lr": float(rate)}) for rate in range(8)], 100, 8, SCALING) == pytest.approx(100)


def test_a_shared_beginning_is_worth_more_workers_than_what_comes_after() -> None:
    pair = [Config({"lr": 0.1}), Config({"lr": MultiStep(0.1, [50], 0.1)})]
    # 50 steps on both workers, then a worker for each branch.
    assert bound(pair, 100, 2, SCALING) == pytest.approx(50 / 1.870 + 50)


@given(st.lists(st.sampled_from(POOL), min_size=1, max_size=6, unique=True), st.integers(1, 6))
def test_no_schedule_beats_it_and_even_work_and_the_longest_chain_do_not_exceed_it(
    configs: list[Config], workers: int
) -> None:
    steps, work = 20, unique_steps(asks_of(configs, 20))
    least = bound(configs, steps, workers, LINEAR)
    assert least >= max(work / workers, steps / 4) - 1e-9
    asks = Asks(*[(config, steps) for config in configs])
    wide = tune(Simulated(workers, scaling=LINEAR), asks, width=Fluid(max_width=4, scaling=LINEAR))
    assert wide.trained == work
    assert wide.seconds >= least - 1e-9
