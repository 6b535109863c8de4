"""The stage tree on the published cases, and its laws."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hippotune.plan.facts import Checkpoint, Position
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan, unique_steps
from hippotune.sequences import Piecewise
from hippotune.sequences.config import Config
from hippotune.stages.tree import StageTree, stage_tree
from sequences.strategies import configs


def lr(*pieces: float, at: list[int]) -> Config:
    return Config({"lr": Piecewise(list(pieces), at)})


TRIAL_1 = lr(0.1, 0.01, at=[200])
TRIALS_2_TO_4 = [lr(0.1, 0.05, at=[100]), lr(0.1, 0.02, at=[100]), lr(0.1, 0.03, at=[100])]


def tree_of(plan: Plan, *asks: tuple[Config, int], scratch: bool = False) -> StageTree:
    return stage_tree([(plan.place(config, step)[0], step) for config, step in asks], scratch)


def spans(tree: StageTree) -> list[tuple[int, int, float]]:
    return sorted(
        (stage.start, stage.end, stage.node.config["lr"].value(stage.start)) for stage in tree.stages()
    )


def test_four_trials_that_share_their_first_hundred_steps() -> None:
    tree = tree_of(Plan(), (TRIAL_1, 300), *[(trial, 300) for trial in TRIALS_2_TO_4])
    assert spans(tree) == [
        (0, 100, 0.1),
        (100, 200, 0.1),
        (100, 300, 0.02),
        (100, 300, 0.03),
        (100, 300, 0.05),
        (200, 300, 0.01),
    ]
    (root,) = tree.roots
    assert len(root.below) == 4


def test_a_fifth_trial_splits_a_stage() -> None:
    plan = Plan()
    asks = [(TRIAL_1, 300), *[(trial, 300) for trial in TRIALS_2_TO_4]]
    tree_of(plan, *asks)
    tree = tree_of(plan, *asks, (lr(0.1, 0.07, at=[150]), 300))
    assert (100, 150, 0.1) in spans(tree)
    assert (150, 200, 0.1) in spans(tree)
    assert (150, 300, 0.07) in spans(tree)


def test_a_request_below_a_checkpoint_is_one_stage() -> None:
    plan = Plan()
    above, _ = plan.place(lr(0.1, at=[]), 30)
    plan.keep(Position(above.id, 20), Checkpoint("20", 1, ""))
    tree = tree_of(plan, (lr(0.1, 0.01, at=[20]), 35))
    assert spans(tree) == [(20, 35, 0.01)]


def test_the_longest_chain_is_what_has_to_be_trained_one_after_the_other() -> None:
    assert tree_of(Plan(), (TRIAL_1, 300), (TRIALS_2_TO_4[0], 250)).longest_chain == 300


@given(
    st.lists(st.tuples(configs(), st.integers(1, 24)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 24)), max_size=5),
)
def test_stages_cover_what_is_left_once_and_hang_together(
    asks: list[tuple[Config, int]], kept: list[tuple[int, int]]
) -> None:
    plan = Plan()
    placed: list[tuple[Node, int]] = [(plan.place(config, step)[0], step) for config, step in asks]
    assert stage_tree(placed, scratch=True).steps == unique_steps(placed)
    for index, step in kept:
        node, end = placed[index % len(placed)]
        position = node.position(min(step, end))
        plan.keep(position, Checkpoint("x", 1, ""))
    tree = stage_tree(placed)
    needed = set()
    for node, step in placed:
        nearest = plan.nearest_checkpoint(node, step)
        needed |= {node.position(at) for at in range((nearest.step if nearest else 0) + 1, step + 1)}
    covered = [
        stage.node.position(at) for stage in tree.stages() for at in range(stage.start + 1, stage.end + 1)
    ]
    assert len(covered) == len(set(covered))
    assert set(covered) == needed
    for stage in tree.stages():
        for below in stage.below:
            assert below.start == stage.end
            assert below.node.position(below.start) == stage.node.position(stage.end)
    for root in tree.roots:
        start = root.node.position(root.start)
        assert root.start == 0 or root.start in plan[start.node].checkpoints
