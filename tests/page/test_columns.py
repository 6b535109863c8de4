"""Facts as columns: nothing is lost, and what comes later is only added."""

from __future__ import annotations

import json
import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hippotune import Config, Constant, MultiStep
from hippotune.history.history import History
from hippotune.page.columns import Columns, Delta, snapshot
from hippotune.page.source import detail_of
from hippotune.plan.facts import Fact, MetricsRecorded, NumbersRecorded, Position, RequestMade
from hippotune.plan.plan import Plan
from hippotune.store.memory import MemoryStore

RATES = [Constant(0.1), MultiStep(0.1, [4], 0.5), MultiStep(0.1, [4, 8], 0.5), Constant(0.2)]
SIZES = [Constant(64), Constant("large")]


@st.composite
def facts(draw: st.DrawFn) -> list[Fact]:
    """Requests and results of a plan, in an order in which they can come."""
    plan, made = Plan(), list[Fact]()
    for number in range(draw(st.integers(0, 12))):
        config = Config({"lr": draw(st.sampled_from(RATES)), "size": draw(st.sampled_from(SIZES))})
        step = draw(st.integers(1, 12))
        node, added = plan.place(config, step)
        made += [*added, RequestMade(draw(st.sampled_from(["one", "two"])), number, config, step)]
        if draw(st.booleans()):
            names = draw(st.sets(st.sampled_from(["acc", "loss"])))
            values = st.floats(allow_nan=True, allow_infinity=True)
            metrics = {name: draw(values) for name in sorted(names)}
            made.append(plan.measure(Position(node.holder(step).id, step), metrics))
    return made


def joined(deltas: list[Delta]) -> Delta:
    """Put columns behind columns, as the page does."""
    whole: Delta = {}
    for delta in deltas:
        for table, columns in delta.items():
            rows = len(next(column for name, column in columns.items() if name != "metrics"))
            known = whole.setdefault(table, {})
            before = len(known.get("node", []))
            for name, column in columns.items():
                if name != "metrics":
                    known[name] = known.get(name, []) + column
            if table == "results":
                metrics = known.setdefault("metrics", {})
                for name in {**metrics, **columns["metrics"]}:
                    past = metrics.get(name, [None] * before)
                    metrics[name] = past + columns["metrics"].get(name, [None] * rows)
    return whole


@given(facts(), st.lists(st.integers(0, 40)))
def test_a_snapshot_and_what_came_after_it_are_a_later_snapshot(given: list[Fact], cuts: list[int]) -> None:
    columns, deltas, begin = Columns(), [], 0
    for cut in [*sorted(cuts), len(given)]:
        mark = columns.mark()
        columns.take(given[begin : max(cut, begin)])
        begin = max(cut, begin)
        deltas.append(columns.since(mark))
    whole = snapshot(given)
    unmeasured = {name for name, column in whole.get("results", {}).get("metrics", {}).items() if not column}
    assert not unmeasured
    assert joined(deltas) == whole
    json.dumps(whole, allow_nan=False)


@given(facts())
def test_trials_are_those_that_histories_have(given: list[Fact]) -> None:
    store = MemoryStore()
    store.write(given)
    whole = snapshot(given)
    trials, asks = whole.get("trials", {}), whole.get("asks", {})
    for place, study in enumerate(whole.get("studies", {}).get("name", [])):
        history = History(store, study)
        mine = [row for row, of in enumerate(trials["study"]) if of == place]
        assert [trials["number"][row] for row in mine] == [trial.number for trial in history.trials]
        for row, trial in zip(mine, history.trials, strict=True):
            asked = [(step, node) for at, step, node in zip(*asks.values(), strict=True) if at == row]
            assert {step for step, _ in asked} == set(trial.steps)
            assert max(asked)[1] == trial.node.holder(trial.asked).id


def test_numbers_that_are_not_finite_are_none() -> None:
    plan = Plan()
    node, added = plan.place(Config({"lr": 0.1}), 1)
    measured = plan.measure(Position(node.id, 1), {"acc": math.nan, "loss": math.inf})
    whole = snapshot([*added, measured])
    assert whole["results"]["order"] == [1]
    assert whole["results"]["metrics"] == {}


def test_numbers_that_training_logged_and_that_are_not_finite_are_none(tmp_path: Path) -> None:
    plan, store = Plan(), MemoryStore()
    node, added = plan.place(Config({"lr": 0.1}), 2)
    store.write([*added, NumbersRecorded(node.id, (1, 2), {"loss": (math.nan, 0.5)})])
    assert detail_of(store, tmp_path, node, 2)["logged"] == {"loss": [(1, None), (2, 0.5)]}


def test_a_branch_says_which_values_it_changes() -> None:
    plan = Plan()
    configs = [{"lr": 0.1, "bs": 64}, {"lr": MultiStep(0.1, [5], 0.1), "bs": 64}]
    added = [fact for config in configs for fact in plan.place(Config(config), 10)[1]]
    assert snapshot(added)["nodes"]["changes"] == [["bs 64", "lr 0.1"], ["lr 0.01"]]


def test_metrics_that_are_named_late_are_unknown_before() -> None:
    plan = Plan()
    node, added = plan.place(Config({"lr": 0.1}), 3)
    results = [
        MetricsRecorded(1, Position(node.id, 1), {"acc": 0.5}),
        MetricsRecorded(2, Position(node.id, 2), {"acc": 0.6, "loss": 1.0}),
        MetricsRecorded(3, Position(node.id, 3), {"loss": 0.9}),
    ]
    assert snapshot([*added, *results])["results"]["metrics"] == {
        "acc": [0.5, 0.6, None],
        "loss": [None, 1.0, 0.9],
    }
