"""What the facts of a study come to as runs with numbers."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from feeds.facts import CONFIGS, example, expected, shown, studies
from hippotune.plan.facts import Fact
from hippotune.sinks.base import Points, Record, RunStarted
from hippotune.sinks.projection import Projection
from hippotune.store.memory import MemoryStore


def projected(store: MemoryStore, after: int = 0, runs: str = "trial") -> list[Record]:
    projection = Projection(store, "study", runs=runs)  # type: ignore[arg-type]
    return [
        record for number, fact in store.facts() for record in projection.take(fact, quiet=number <= after)
    ]


@given(studies(), st.data())
def test_every_trial_shows_every_number_on_its_way_once_wherever_it_is_taken_up(
    facts: list[Fact], data: st.DataObject
) -> None:
    store = MemoryStore()
    live = Projection(store, "study")
    heard = [live.take(written) for fact in facts for written in store.write([fact]).facts]
    assert shown(chain(*heard)) == expected(store)
    assert shown(projected(store)) == expected(store)
    cut = data.draw(st.integers(0, store.last_number))
    assert shown(chain(*heard[:cut], projected(store, after=cut))) == expected(store)


def test_a_stretch_of_the_tree_shows_what_was_trained_along_it_and_names_its_parent() -> None:
    store = MemoryStore()
    store.write(example())
    records = projected(store, runs="stage")
    runs = {record.run.name: record.run for record in records if isinstance(record, RunStarted)}
    assert {run.name: (run.parent, run.start) for run in runs.values()} == {
        "node-0": (None, 0),
        "node-1": ("node-0", 3),
        "node-2": ("node-0", 5),
        "node-3": ("node-0", 1),
        "node-4": (None, 0),
    }
    steps = {
        (record.run.name, row.step) for record in records if isinstance(record, Points) for row in record.rows
    }
    assert steps == {(run.name, step) for run in runs.values() for step in range(run.start + 1, 9)}
    assert runs["node-0"].values() == {"lr": 0.1, "optimizer": "sgd"}
    assert runs["node-3"].values()["lr"] == str(CONFIGS[3]["lr"])
    assert shown(records)
