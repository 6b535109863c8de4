import io
import re
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from hippotune.plan.plan import Plan
from hippotune.sequences import Config, Constant, Cosine, MultiStep, Piecewise, Warmup
from hippotune.stages.tree import StageTree, stage_tree
from hippotune.view.tree import LINES, Row, Stretch, TreeDrawing, draw, stretches


def tree_of(configs: Sequence[Config], steps: int) -> StageTree:
    plan = Plan()
    return stage_tree([(plan.place(config, steps)[0], steps) for config in configs])


def drawn(tree: StageTree, depth: int | None = None, width: int = 80, encoding: str = "utf-8") -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=stream, width=width, color_system=None).print(TreeDrawing(tree, depth))
    stream.seek(0)
    return [line.rstrip() for line in stream.read().splitlines()]


def rows_of(tree: StageTree, depth: int | None = None) -> list[Row]:
    return list(draw(stretches(tree), depth))


STEPS_DECAY = [
    Config({"lr": MultiStep(0.1, milestones, 0.1)}) for milestones in ([], [30], [30, 60], [30, 60, 90])
]


def test_a_tree_shows_stages_values_steps_trials_and_where_they_lie() -> None:
    assert drawn(tree_of(STEPS_DECAY, 120)) == [
        "                          stage      steps  trials  asked  0                 120",
        "lr 0.1                    [0, 30)       30       4         ━━━━━",
        "├╴lr 0.1                  [30, 120)     90       1      1       ━━━━━━━━━━━━━━━━",
        "╰╴lr 0.01                 [30, 60)      30       3              ━━━━━",
        "  ├╴lr 0.01               [60, 120)     60       1      1            ━━━━━━━━━━━",
        "  ╰╴lr 0.001              [60, 90)      30       2                   ━━━━━",
        "    ├╴lr 0.001            [90, 120)     30       1      1                 ━━━━━━",
        "    ╰╴lr 0.0001           [90, 120)     30       1      1                 ━━━━━━",
    ]


def test_without_unicode_a_tree_is_plain_ascii() -> None:
    lines = drawn(tree_of(STEPS_DECAY, 120), encoding="ascii")
    assert lines[3].startswith("`-lr 0.01                 [30, 60)      30       3")
    assert lines[3].endswith("=====")


def test_a_narrow_terminal_gets_no_axis() -> None:
    lines = drawn(tree_of(STEPS_DECAY, 120), width=60)
    assert lines[1] == "lr 0.1                    [0, 30)       30       4"


def test_an_empty_tree_draws_nothing() -> None:
    assert drawn(StageTree([])) == []


def test_stages_without_a_branch_between_them_are_not_indented() -> None:
    plan = Plan()
    config = Config({"lr": Piecewise([0.1, 0.01], [20]), "bs": 128})
    asks = [(plan.place(config, step)[0], step) for step in (10, 20, 30)]
    labels = [(row.guides, row.label) for row in rows_of(stage_tree(asks))]
    assert labels == [("", "bs 128 · lr 0.1"), ("", "goes on"), ("", "then lr 0.01")]


def test_pieces_of_a_sequence_are_one_line_where_nothing_branches_between_them() -> None:
    tree = tree_of([Config({"lr": MultiStep(0.1, [30, 60, 90], 0.1)})], 120)
    assert [row.label for row in rows_of(tree)] == ["lr MultiStep(0.1, [30, 60, 90])"]


def test_siblings_are_labelled_by_what_they_do_from_there_on() -> None:
    tree = tree_of(
        [Config({"lr": Warmup(5, then), "bs": 128}) for then in (Constant(0.1), Cosine(0.1, 115))], 120
    )
    assert [row.label for row in rows_of(tree)][1:] == ["lr 0.1", "lr Cosine(0.1, 115)"]


def test_siblings_that_sound_alike_are_told_apart_by_their_values() -> None:
    cosine = Cosine(0.1, 50)
    tree = tree_of([Config({"lr": Constant(0.1).then(cosine, at=at)}) for at in (9, 10)], 40)
    assert [row.label for row in rows_of(tree)][1:] == ["lr 0.0999013364214", "lr 0.1"]


def test_hyper_parameters_of_only_some_trials_are_shown_where_they_are() -> None:
    tree = tree_of([Config({"optimizer": "adam"}), Config({"optimizer": "sgd", "momentum": 0.9})], 10)
    assert [row.label for row in rows_of(tree)] == [
        "optimizer adam",
        "momentum 0.9 · optimizer sgd",
    ]


def test_depth_draws_so_many_levels_in_full() -> None:
    tree = tree_of(STEPS_DECAY, 120)
    rows = rows_of(tree, depth=2)
    assert [row.guides + row.label for row in rows] == [
        "lr 0.1",
        "├╴lr 0.1",
        "╰╴lr 0.01",
        "  ╰╴… 4 more stages, 150 steps",
    ]
    many = tree_of([Config({"lr": number}) for number in range(100)], 10)
    assert len(rows_of(many, depth=1)) == 100


VALUES = st.sampled_from([0.1, 0.01, 0.001])
PIECES = st.builds(
    lambda values, milestones: Piecewise(values, sorted(milestones)),
    st.lists(VALUES, min_size=4, max_size=4),
    st.sets(st.integers(1, 38), min_size=3, max_size=3),
)
CONFIGS = st.builds(lambda lr, bs: Config({"lr": lr, "bs": bs}), PIECES, st.integers(1, 20))


def own_stages(stretch: Stretch) -> int:
    return stretch.stages - sum(below.stages for below in stretch.below)


def left_out(rows: Sequence[Row]) -> tuple[int, int]:
    stages = steps = 0
    for row in rows:
        if row.stretch is None:
            more, of = re.findall(r"[\d,]+", row.label.replace("stages,", "stages"))
            stages, steps = stages + int(more.replace(",", "")), steps + int(of.replace(",", ""))
    return stages, steps


@given(st.lists(CONFIGS, min_size=1, max_size=80), st.none() | st.integers(1, 6))
def test_a_drawing_accounts_for_every_stage(configs: list[Config], depth: int | None) -> None:
    tree = tree_of(configs, 40)
    rows = rows_of(tree, depth)
    shown = [row.stretch for row in rows if row.stretch is not None]
    assert len(set(shown)) == len(shown)
    more, steps = left_out(rows)
    assert sum(own_stages(stretch) for stretch in shown) + more == len(list(tree.stages()))
    assert sum(stretch.end - stretch.start for stretch in shown) + steps == tree.steps
    if depth is None:
        assert len(rows) <= LINES


@given(st.lists(CONFIGS, min_size=1, max_size=80), st.integers(20, 150))
def test_a_drawing_is_never_wider_than_its_terminal(configs: list[Config], width: int) -> None:
    assert max(cell_len(line) for line in drawn(tree_of(configs, 40), width=width)) <= width
