"""What every store of facts does, whatever it keeps them in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import few_examples
from hippotune.errors import StoreError
from hippotune.plan.facts import (
    Checkpoint,
    CheckpointDropped,
    CheckpointKept,
    Fact,
    FailureCleared,
    FailureRecorded,
    MeasuredSteps,
    MetricsRecorded,
    NodeAdded,
    NumbersRecorded,
    Position,
    RequestMade,
    SpanRecorded,
)
from hippotune.sequences.config import Config
from hippotune.store.base import Store
from sequences.strategies import configs

NewStore = Callable[[], Store]

whole = st.integers(0, 2**63 - 10**3)
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
number = st.floats(allow_nan=False)
metrics = st.dictionaries(st.text(max_size=5), number | st.integers(-(2**60), 2**60), max_size=3)
steps = st.integers(0, 5) | whole
positions = st.builds(Position, st.integers(0, 5), steps)
checkpoints = st.builds(Checkpoint, text, whole, text, interim=st.booleans())
real = st.floats(allow_nan=False, width=64)
spans = st.builds(SpanRecorded, whole, whole, whole, text, whole, whole, *[real] * 3, st.none() | real)


@st.composite
def logs(draw: st.DrawFn) -> NumbersRecorded:
    """Draw what a node logged: at steps with gaps or without, with names that not every step has."""
    first, gaps = draw(whole), draw(st.lists(st.just(1) | st.integers(1, 9), max_size=5))
    steps = tuple(first + sum(gaps[:n]) for n in range(len(gaps) + 1))
    column = st.lists(st.none() | number, min_size=len(steps), max_size=len(steps)).map(tuple)
    columns = draw(st.dictionaries(st.text(max_size=5), column, min_size=1, max_size=3))
    return NumbersRecorded(draw(st.integers(0, 5)), steps, columns)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Fact]]:
    """Draw batches of facts that can follow each other. Nodes are numbered from 0 on."""
    known = draw(st.lists(configs(("lr", "optimizer")), min_size=1, max_size=3))
    config = st.sampled_from(known)
    parents = st.none() | st.integers(0, 5)
    kinds: list[Callable[[int], st.SearchStrategy[Fact]]] = [
        lambda n: st.builds(NodeAdded, st.just(n), parents, whole, config, text),
        lambda n: st.builds(MetricsRecorded, st.just(n), positions, metrics),
        lambda n: st.builds(FailureRecorded, st.just(n), positions, text, st.booleans()),
        lambda n: st.builds(FailureRecorded, st.just(n), positions, text, evaluation=st.booleans()),
        lambda n: st.builds(FailureCleared, st.just(n), positions),
        lambda n: st.builds(CheckpointKept, positions, checkpoints),
        lambda n: st.builds(CheckpointDropped, positions),
        lambda n: st.builds(RequestMade, text, st.integers(0, 5), config, steps),
        lambda n: spans,
        lambda n: logs(),
    ]
    numbers = draw(st.lists(whole, unique=True, max_size=20))
    facts = [draw(draw(st.sampled_from(kinds))(n)) for n in numbers]
    nodes = itertools.count()
    facts = [replace(fact, node=next(nodes)) if isinstance(fact, NodeAdded) else fact for fact in facts]
    cuts = sorted(draw(st.lists(st.integers(0, len(facts)), max_size=4)))
    return [facts[first:last] for first, last in zip([0, *cuts], [*cuts, len(facts)], strict=True)]


def still_so(facts: Iterable[Fact]) -> tuple[list[Fact], list[Fact]]:
    """Say what a store must read back after these facts: all but spans and logged numbers, then spans."""
    nodes: list[NodeAdded] = []
    kept: dict[Position, CheckpointKept] = {}
    results: list[MetricsRecorded | FailureRecorded | FailureCleared] = []
    requests: list[RequestMade] = []
    worked: list[Fact] = []
    for fact in facts:
        match fact:
            case NodeAdded():
                nodes.append(fact)
            case CheckpointKept():
                kept[fact.position] = fact
            case CheckpointDropped():
                kept.pop(fact.position, None)
            case MetricsRecorded() | FailureRecorded() | FailureCleared():
                results.append(fact)
            case RequestMade():
                requests += [fact] if fact not in requests else []
            case SpanRecorded():
                worked.append(fact)
    nodes.sort(key=lambda fact: fact.node)
    results.sort(key=lambda fact: fact.order)
    return [*nodes, *(kept[position] for position in sorted(kept)), *results, *requests], worked


@few_examples
@given(history=histories())
def test_what_was_written_is_read_back_in_an_order_that_can_be_replayed(
    new_store: NewStore, history: list[list[Fact]]
) -> None:
    with closing(new_store()) as store:
        for facts in history:
            store.write(facts)
        written = [fact for facts in history for fact in facts]
        expected, worked = still_so(written)
        assert list(store.read()) == expected
        assert list(store.spans()) == worked
        for node in range(6):
            logged = [fact for fact in written if isinstance(fact, NumbersRecorded) and fact.node == node]
            assert list(store.logged(node)) == logged


CONFIG = Config({"lr": 0.1, "optimizer": "sgd"})
AT = Position(0, 3)
NODE = NodeAdded(0, None, 0, CONFIG)
KEPT = CheckpointKept(AT, Checkpoint("one", 10, "abc"))
MEASURED = MetricsRecorded(1, AT, {"loss": 1.0})
ASKED = RequestMade("study", 0, CONFIG, 3)
WORKED = SpanRecorded(0, 0, 0, "train", 0, 3, 1.0, 2.0)
LOGGED = NumbersRecorded(0, (1, 3), {"loss": (0.5, 0.25)})
ALL: list[Fact] = [NODE, KEPT, MEASURED, ASKED, WORKED, LOGGED]


@pytest.mark.parametrize("contradiction", [NodeAdded(0, None, 0, CONFIG), FailureRecorded(1, AT, "no")])
def test_a_write_that_fails_leaves_no_trace(new_store: NewStore, contradiction: Fact) -> None:
    with closing(new_store()) as store:
        store.write(ALL)
        other = Config({"lr": 0.2})
        rest: list[Fact] = [
            NodeAdded(1, 0, 2, other),
            MetricsRecorded(2, AT, {"loss": 0.5}),
            CheckpointDropped(AT),
            RequestMade("study", 1, other, 3),
            SpanRecorded(1, 1, 1, "train", 2, 3, 1.0, 2.0),
            NumbersRecorded(0, (1, 2), {"loss": (0.4, 0.3)}),
        ]
        with pytest.raises(StoreError):
            store.write([*rest, contradiction])
        assert list(store.read()) == [NODE, KEPT, MEASURED, ASKED]
        assert list(store.spans()) == [WORKED]
        assert list(store.logged(0)) == [LOGGED]
        store.write(rest)
        assert list(store.logged(0)) == [LOGGED, rest[-1]]
        assert list(store.read()) == still_so(ALL + rest)[0]


def test_a_contradiction_inside_one_write_is_refused_too(new_store: NewStore) -> None:
    with closing(new_store()) as store:
        with pytest.raises(StoreError):
            store.write([NODE, MEASURED, MetricsRecorded(1, AT, {})])
        assert list(store.read()) == []


def test_a_checkpoint_that_is_dropped_and_kept_again_is_kept(new_store: NewStore) -> None:
    with closing(new_store()) as store:
        again = CheckpointKept(AT, Checkpoint("two", 20, "def"))
        store.write([NODE, KEPT, CheckpointDropped(AT), again])
        assert list(store.read()) == [NODE, again]
        store.write([KEPT, CheckpointDropped(AT)])
        assert list(store.read()) == [NODE]


def test_asking_again_for_what_was_asked_for_is_no_new_fact(new_store: NewStore) -> None:
    with closing(new_store()) as store:
        further = RequestMade("study", 0, CONFIG, 6)
        store.write([ASKED, ASKED])
        store.write([further, ASKED])
        assert list(store.read()) == [ASKED, further]


def test_metrics_that_are_not_finite_come_back_as_they_were(new_store: NewStore) -> None:
    with closing(new_store()) as store:
        odd = {"nan": float("nan"), "up": float("inf"), "down": float("-inf"), "tiny": 5e-324}
        store.write([MetricsRecorded(1, AT, odd)])
        (found,) = store.read()
        assert isinstance(found, MetricsRecorded)
        assert repr(found.metrics) == repr(odd)


def test_logged_numbers_that_are_not_finite_come_back_as_they_were(new_store: NewStore) -> None:
    with closing(new_store()) as store:
        odd = (float("nan"), float("inf"), None, float("-inf"), 5e-324)
        store.write([NumbersRecorded(2, (4, 5, 6, 7, 8), {"a \0 and a \ud800": odd})])
        (found,) = store.logged(2)
        assert found.steps == (4, 5, 6, 7, 8)
        assert repr(found.numbers) == repr({"a \0 and a \ud800": odd})


def test_an_error_with_characters_that_no_database_holds_can_be_recorded(new_store: NewStore) -> None:
    with closing(new_store()) as store:
        store.write([FailureRecorded(1, AT, "a \0 and a \ud800 in a message ü")])
        (found,) = store.read()
        assert isinstance(found, FailureRecorded)
        assert found.error.startswith("a ")
        assert found.error.endswith(" in a message ü")


def test_what_steps_took_is_added_up_by_node_and_width(new_store: NewStore) -> None:
    def span(
        node: int, first: int, last: int, seconds: float | None, kind: str = "train", width: float = 1.0
    ) -> SpanRecorded:
        return SpanRecorded(0, 0, node, kind, first, last, 0.0, 99.0, width, seconds)

    with closing(new_store()) as store:
        assert list(store.step_times()) == []
        store.write([span(0, 0, 4, 2.0), span(1, 4, 6, 3.0), span(0, 4, 8, 2.5, width=2.0)])
        store.write([span(0, 4, 6, 0.5), span(1, 6, 7, None), span(1, 6, 6, 9.0), span(1, 4, 6, 9.0, "help")])
        assert list(store.step_times()) == [
            MeasuredSteps(1, 1.0, 2, 3.0),
            MeasuredSteps(0, 2.0, 4, 2.5),
            MeasuredSteps(0, 1.0, 6, 2.5),
        ]


def test_plans_know_nothing_of_each_other(new_store: NewStore) -> None:
    with closing(new_store()) as one, closing(new_store()) as other:
        one.write(ALL)
        other.write([NODE])
        assert list(one.read()) == [NODE, KEPT, MEASURED, ASKED]
        assert list(other.read()) == [NODE]
        assert list(other.spans()) == []
        assert list(other.logged(0)) == []


def test_a_store_may_be_closed_twice(new_store: NewStore) -> None:
    store = new_store()
    store.close()
    store.close()


def test_writing_nothing_is_nothing(new_store: NewStore) -> None:
    with closing(new_store()) as store:
        store.write([])
        assert list(store.read()) == []
