"""Merging is exactly right, and a plan is its facts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hippotune.plan.facts import Checkpoint, Position
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan, unique_steps
from hippotune.sequences import Constant, Cosine, CosineRestarts, Exponential, MultiStep, Piecewise
from hippotune.sequences.config import Config
from sequences.strategies import configs

Asks = list[tuple[Config, int]]


def brute_force(asks: Asks) -> int:
    """Count distinct beginnings, comparing values step by step."""
    beginnings = set()
    for config, step in asks:
        values: tuple[object, ...] = ()
        for at in range(step):
            values = (*values, config.key(at))
            beginnings.add(values)
    return len(beginnings)


def placed(plan: Plan, asks: Asks) -> list[tuple[Node, int]]:
    return [(plan.place(config, step)[0], step) for config, step in asks]


@given(st.lists(st.tuples(configs(), st.integers(1, 24)), min_size=1, max_size=10))
def test_unique_steps_equal_a_comparison_of_values_step_by_step(asks: Asks) -> None:
    assert unique_steps(placed(Plan(), asks)) == brute_force(asks)


@given(st.lists(st.tuples(configs(), st.integers(1, 24)), min_size=1, max_size=8), st.randoms())
def test_the_order_of_arrival_does_not_change_what_is_shared(asks: Asks, chance: object) -> None:
    shuffled = list(asks)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert unique_steps(placed(Plan(), asks)) == unique_steps(placed(Plan(), shuffled))


@given(st.lists(st.tuples(configs(), st.integers(1, 24)), min_size=1, max_size=8))
def test_two_trials_share_a_step_exactly_if_all_their_values_agree_up_to_it(asks: Asks) -> None:
    plan = Plan()
    nodes = placed(plan, asks)
    for (one, one_end), (node, _) in zip(asks, nodes, strict=True):
        for (other, other_end), (other_node, _) in zip(asks, nodes, strict=True):
            for step in range(1, min(one_end, other_end) + 1):
                alike = all(one.key(at) == other.key(at) for at in range(step))
                assert (node.position(step) == other_node.position(step)) == alike


@given(st.lists(st.tuples(configs(), st.integers(1, 24)), min_size=1, max_size=8))
def test_a_plan_replayed_from_its_facts_is_the_same_plan(asks: Asks) -> None:
    plan = Plan()
    facts = []
    for config, step in asks:
        node, added = plan.place(config, step)
        facts += added
        facts.append(plan.measure(node.position(step), {"m": 1.0}))
        facts.append(plan.keep(node.position(step), Checkpoint(f"{node.id}-{step}", 7, "")))
    again = Plan.replay(facts)
    for node, copy in zip(plan.nodes, again.nodes, strict=True):
        assert (node.id, node.start, node.config) == (copy.id, copy.start, copy.config)
        assert (node.metrics, node.checkpoints) == (copy.metrics, copy.checkpoints)
        assert node.branch_steps(0) == copy.branch_steps(0)
    assert (plan.order, plan.bytes) == (again.order, again.bytes)
    for config, step in asks:
        assert again.place(config, step)[1] == []


def test_sequences_that_are_equal_by_value_are_one_trial() -> None:
    equal = [
        (MultiStep(0.1, [90], 0.1), Piecewise([0.1, 0.01], [90])),
        (Exponential(0.1, 1.0), Constant(0.1)),
    ]
    for one, other in equal:
        plan = Plan()
        assert plan.place(Config({"lr": one}), 120)[0] is plan.place(Config({"lr": other}), 120)[0]
    plan = Plan()
    first = plan.place(Config({"lr": Cosine(0.1, 20)}), 20)[0]
    assert plan.place(Config({"lr": CosineRestarts(0.1, 20)}), 20)[0] is first
    assert plan.place(Config({"lr": CosineRestarts(0.1, 20)}), 21)[0] is not first


def test_identical_trials_merge_into_one() -> None:
    asks = placed(Plan(), [(Config({"lr": 0.1}), 50)] * 7)
    assert 7 * 50 / unique_steps(asks) == 7


def test_the_nearest_checkpoint_is_found_on_the_way_from_the_root() -> None:
    plan = Plan()
    above, _ = plan.place(Config({"lr": 0.1}), 100)
    below, _ = plan.place(Config({"lr": Piecewise([0.1, 0.01], [20])}), 100)
    assert plan.nearest_checkpoint(below, 35) is None
    for step in (10, 20, 50):
        plan.keep(Position(above.id, step), Checkpoint(str(step), 1, ""))
    assert plan.nearest_checkpoint(below, 35) == Position(above.id, 20)
    assert plan.nearest_checkpoint(above, 35) == Position(above.id, 20)
    plan.keep(Position(below.id, 30), Checkpoint("30", 1, ""))
    assert plan.nearest_checkpoint(below, 35) == Position(below.id, 30)


def test_a_failure_stands_in_the_way_of_what_passes_it_only() -> None:
    plan = Plan()
    above, _ = plan.place(Config({"lr": 0.1}), 100)
    early, _ = plan.place(Config({"lr": Piecewise([0.1, 0.01], [20])}), 100)
    late, _ = plan.place(Config({"lr": Piecewise([0.1, 0.01], [60])}), 100)
    plan.fail(Position(above.id, 50), "Boom")
    assert plan.failure_on_the_way(above, 49) is None
    assert plan.failure_on_the_way(above, 50) is not None
    assert plan.failure_on_the_way(early, 100) is None
    assert plan.failure_on_the_way(late, 100) is not None
