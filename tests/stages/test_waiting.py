"""Who waits below a state."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hippotune.plan.facts import Checkpoint
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.sequences import Config, MultiStep
from hippotune.stages.frontier import Frontier
from hippotune.stages.waiting import waiting_below

STEPS = 12
CONFIGS = [
    Config({"lr": MultiStep(0.1, milestones, 0.5)}) if milestones else Config({"lr": 0.1})
    for milestones in ([], [3], [7], [3, 7], [3, 9], [5, 9])
]


def is_on_the_way(node: Node, step: int, wanted: Node, at: int) -> bool:
    """Whether something waits for training from a step of a node, and no checkpoint after it serves."""
    if at < step:
        return False
    way = [(wanted.holder(each), each) for each in range(step + 1, at + 1)]
    if not way:
        return wanted is node
    return way[0][0] is node and not any(each in along.checkpoints for along, each in way)


@given(
    st.lists(st.tuples(st.sampled_from(CONFIGS), st.integers(1, STEPS), st.sampled_from("abc")), min_size=1),
    st.lists(st.tuples(st.sampled_from(CONFIGS), st.integers(1, STEPS))),
    st.integers(0, STEPS),
)
def test_those_wait_whose_way_leads_on_from_there_without_a_checkpoint(asks, kept, step: int) -> None:
    plan = Plan()
    for config in CONFIGS:
        plan.place(config, STEPS)
    frontier = Frontier({}, {})
    for number, (config, at, study) in enumerate(asks):
        frontier.ask(plan.find(config, STEPS).holder(at), at, number, study=study)
    for config, at in kept:
        position = plan.find(config, STEPS).position(at)
        if at not in plan[position.node].checkpoints:
            plan.keep(position, Checkpoint("name", 1, ""))
    for node in plan.nodes:
        if step < node.start:
            continue
        expected = {
            study
            for config, at, study in asks
            if is_on_the_way(node, step, plan.find(config, STEPS).holder(at), at)
        }
        assert waiting_below(frontier, node, step) == expected
    assert set(frontier.wanting) == {study for _, _, study in asks}
