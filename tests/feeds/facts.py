"""Facts of studies that were never trained, for sinks; and what each run must show of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hypothesis import strategies as st

from hippotune import Config, Exponential, MultiStep
from hippotune.history.history import History
from hippotune.plan.facts import Fact, NumbersRecorded, RequestMade, SpanRecorded, StudyBegan, StudyEnded
from hippotune.plan.plan import Plan
from hippotune.sinks.base import Points, Record
from hippotune.sinks.projection import LOGGED, STEP_SECONDS
from hippotune.store.base import Store

CONFIGS = [
    Config({"lr": 0.1, "optimizer": "sgd"}),
    Config({"lr": MultiStep(0.1, [3], 0.1), "optimizer": "sgd"}),
    Config({"lr": MultiStep(0.1, [5], 0.1), "optimizer": "sgd"}),
    Config({"lr": Exponential(0.1, 0.9), "optimizer": "sgd"}),
    Config({"lr": 0.1, "optimizer": "adam"}),
]
Number = tuple[str, str, int]
"""A run, a name and a step."""


@st.composite
def studies(draw: st.DrawFn) -> list[Fact]:
    """Draw the facts of two studies on one plan: trials are asked further, and trained in between.

    Along a node, training goes on from where it was, or from an earlier step after a loss.
    """
    plan, facts, time = Plan(), [], 0.0
    asked: dict[int, int] = {}
    trained: dict[int, int] = {}
    for _ in range(draw(st.integers(1, 8))):
        number = draw(st.integers(0, len(CONFIGS) - 1))
        config, step = CONFIGS[number], draw(st.integers(asked.get(number, 0) + 1, asked.get(number, 0) + 6))
        asked[number] = step
        _, added = plan.place(config, step)
        facts += [
            *added,
            RequestMade(draw(st.sampled_from(["study", "study", "other"])), number, config, step),
        ]
        for _ in range(draw(st.integers(0, 3))):
            along = draw(st.sampled_from(plan.nodes))
            reached = trained.setdefault(along.id, along.start)
            first = draw(st.integers(along.start, reached))
            steps = tuple(range(first + 1, first + 1 + draw(st.integers(1, 4))))
            last, time = steps[-1], time + 1.0
            numbers = {"x": tuple(along.id + step / 100 for step in steps)}
            if along.id % 2:
                numbers["y"] = tuple(None if step % 2 else float(step) for step in steps)
            facts.append(NumbersRecorded(along.id, steps, numbers, time))
            if last not in along.metrics and draw(st.booleans()):
                facts.append(plan.measure(along.position(last), {"loss": time}, time))
            facts.append(SpanRecorded(0, len(facts), along.id, "train", first, last, time, time, 1.0, 0.5))
            trained[along.id] = max(reached, last)
    return facts


def example() -> list[Fact]:
    """Return the facts of a small study with everything in it."""
    plan = Plan()
    facts: list[Fact] = [StudyBegan("study", 1, 1e9, "loss", "min")]
    for number, config in enumerate(CONFIGS):
        facts += [*plan.place(config, 8)[1], RequestMade("study", number, config, 8)]
    for turn, node in enumerate(plan.nodes):
        for step in range(node.start + 1, 9):
            time = 1e9 + 10 * turn + step
            facts.append(NumbersRecorded(node.id, (step,), {"x": (step / 3 + turn,)}, time))
            if step % 4 == 0:
                loss = float("nan") if turn == 1 else step / 7 + turn
                facts.append(plan.measure(node.position(step), {"loss": loss, "acc": step / 8}, time))
        ended = 1e9 + 10 * turn + 9
        facts.append(SpanRecorded(0, turn, node.id, "train", node.start, 8, ended - 9, ended, 1.0, 4.0))
    return [*facts, StudyEnded("study", 1, 1e9 + 99, "finished")]


def expected(store: Store, study: str = "study") -> dict[Number, float]:
    """Return what runs of trials must show, from what the store says of the study."""
    history = History(store, study)
    found: dict[Number, float] = {}
    for trial in history.trials:
        run = f"trial-{trial.number}"
        for step, metrics in trial.metrics().items():
            found |= {(run, name, step): value for name, value in metrics.items()}
        for name, logged in history.logged(trial).items():
            found |= {(run, f"{LOGGED}{name}", step): value for step, value in logged}
        step = trial.asked
        for node in trial.node.lineage():
            for span in history.spans:
                if span.node == node.id and node.start < span.last <= step and span.seconds is not None:
                    key = (run, STEP_SECONDS, span.last)
                    found.setdefault(key, span.seconds / (span.last - span.first))
            step = node.start
    return found


def shown(records: Iterable[Record]) -> dict[Number, float]:
    """Return the numbers in records, each of which has to come once."""
    told = [
        ((record.run.name, name, row.step), value)
        for record in records
        if isinstance(record, Points)
        for row in record.rows
        for name, value in row.numbers.items()
    ]
    assert max(Counter(key for key, _ in told).values(), default=1) == 1
    return dict(told)
