"""The numbered log of facts that every store keeps."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given

from examples import few_examples
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import (
    Checkpoint,
    CheckpointDropped,
    CheckpointKept,
    CheckpointPinned,
    Fact,
    MetricsRecorded,
    NodeAdded,
    Position,
    ProofRecorded,
    RequestMade,
    StateRecorded,
    StudyBegan,
    StudyEnded,
    StudyStopped,
    TrialStopped,
)
from hippotune.sequences.config import Config
from hippotune.store.backup import back_up
from hippotune.store.base import ConnectionLost, Store
from hippotune.store.catalog import Catalog, open_store
from hippotune.store.files import checkpoint_folder
from hippotune.store.homes import open_checkpoints
from hippotune.store.sql import SqlStore
from store import programs
from store.conftest import new_key
from store.test_conformance import histories

NewStore = Callable[[], Store]
CONFIG = Config({"lr": 0.1})
AT = Position(0, 3)
ACTIONS: list[Fact] = [
    StudyBegan("a", 1, 1.5, "loss", "min", {"tuner": "Grid", "odd": [float("inf"), None, "ü"]}),
    TrialStopped("a", 7, 2.0, "kim"),
    StudyStopped("a", 2.5),
    StudyEnded("a", 1, 3.0, "stopped", "by kim"),
    CheckpointPinned(AT, 4.0),
]


def new_facts(batches: Sequence[Sequence[Fact]]) -> list[Fact]:
    """Return what of some batches is new: a request counts once."""
    found: list[Fact] = []
    for fact in (fact for facts in batches for fact in facts):
        if not isinstance(fact, RequestMade) or fact not in found:
            found.append(fact)
    return found


@few_examples
@given(history=histories())
def test_facts_are_numbered_without_gaps_in_the_order_in_which_they_were_written(
    new_store: NewStore, history: list[list[Fact]]
) -> None:
    with closing(new_store()) as store:
        told: list[tuple[int, Fact]] = []
        for facts in history:
            first, written = store.write(facts)
            told += enumerate(written, first)
        expected = list(enumerate(new_facts(history), 1))
        assert told == expected
        assert list(store.facts()) == expected
        assert store.last_number == len(expected)
        for after in range(len(expected) + 1):
            assert list(store.facts(after, 2)) == expected[after : after + 2]


def test_what_studies_and_people_did_is_read_back_too(new_store: NewStore) -> None:
    with closing(new_store()) as store:
        store.write([NodeAdded(0, None, 0, CONFIG), *ACTIONS])
        assert list(store.read())[1:] == ACTIONS
        assert [fact for _, fact in store.facts(1)] == ACTIONS


def test_a_state_that_was_compared_keeps_its_number_and_lets_its_fingerprint_go(new_store: NewStore) -> None:
    with closing(new_store()) as store:
        noted = [StateRecorded(Position(0, step), Position(0, step - 1), b"much") for step in (3, 5)]
        proof = ProofRecorded("audit", AT, "exact")
        store.write([*noted, proof])
        compared = StateRecorded(AT, Position(0, 2), b"")
        assert list(store.facts()) == [(1, compared), (2, noted[1]), (3, proof)]
        assert list(store.read()) == [noted[1], proof]


def test_numbers_go_on_where_they_ended(home: Path, url: str | None) -> None:
    key, facts = new_key(), [MetricsRecorded(n, Position(0, n), {}, time=n / 2) for n in range(6)]
    for at in (0, 2, 4):
        with open_store(home, url) as catalog, closing(catalog.plan(key)) as store:
            assert store.write(facts[at : at + 2]) == (at + 1, facts[at : at + 2])
            incarnation = store.incarnation
    with open_store(home, url) as catalog:
        view = catalog.view(key)
        assert list(view.facts()) == list(enumerate(facts, 1))
        assert [fact.time for _, fact in view.facts() if isinstance(fact, MetricsRecorded)][-1] == 2.5
        assert view.incarnation == incarnation


def test_a_log_is_read_while_another_process_writes_it(home: Path, url: str | None) -> None:
    with open_store(home, url) as catalog, closing(catalog.plan(programs.KEY)):
        pass
    with programs.running("write", home, url) as process, open_store(home, url) as catalog:
        assert process.stdout is not None
        view, seen, told = catalog.view(programs.KEY), 0, 0
        while seen < 50:
            told = int(process.stdout.readline()) + programs.BATCH + 1
            for number, fact in view.facts(seen):
                assert number == seen + 1
                assert isinstance(fact, NodeAdded) if number == 1 else fact.order == number - 2  # type: ignore[union-attr]
                seen = number
            assert seen >= told


@pytest.mark.parametrize("is_stored", [False, True])
def test_facts_that_are_written_again_after_a_lost_connection_are_numbered_once(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    """The connection is lost before the commit, or after it and before its answer."""
    key = new_key()
    with closing(catalog.plan(key)) as store:
        asked = RequestMade("a", 0, CONFIG, 3)
        store.write([NodeAdded(0, None, 0, CONFIG), asked])
        facts = [asked, RequestMade("a", 1, CONFIG, 3), MetricsRecorded(1, AT, {}), CheckpointDropped(AT)]
        insert = SqlStore._store

        def lose(self: SqlStore, *arguments: object) -> None:
            monkeypatch.setattr(SqlStore, "_store", insert)
            if is_stored:
                batch, numbers = arguments
                before = numbers.last, dict(numbers.configs)  # type: ignore[attr-defined]
                insert(self, batch, numbers)  # type: ignore[arg-type]
                numbers.last, numbers.configs = before  # type: ignore[attr-defined]
            self._uncertain = arguments[0]  # type: ignore[assignment]
            raise ConnectionLost("cut")

        monkeypatch.setattr(SqlStore, "_store", lose)
        with pytest.raises(ConnectionLost):
            store.write(facts)
        assert store.write(facts) == (3, facts[1:])
        assert store.write([MetricsRecorded(2, AT, {})]).first == 6
        assert [number for number, _ in store.facts()] == [1, 2, 3, 4, 5, 6]
        assert [fact for _, fact in store.facts(2, 3)] == facts[1:]


def test_a_plan_that_was_removed_and_begun_anew_has_another_log(catalog: Catalog) -> None:
    key = new_key()
    catalog.bind("a", key)
    with closing(catalog.plan(key)) as store:
        store.write([NodeAdded(0, None, 0, CONFIG), *ACTIONS])
        before = store.incarnation
    catalog.bind("a", new_key())
    catalog.remove(key)
    with closing(catalog.plan(key)) as store:
        assert store.incarnation != before
        assert store.last_number == 0
        assert list(store.facts()) == []


def test_a_backup_has_other_logs(home: Path, tmp_path: Path) -> None:
    key = PlanKey("Digits", "version:1", "{}", 0)
    with open_store(home) as catalog:
        with closing(catalog.plan(key)) as store:
            store.write([NodeAdded(0, None, 0, CONFIG)])
            before = store.incarnation
        back_up(catalog.database, tmp_path / "copy")
    (tmp_path / "other").mkdir()
    shutil.copy(tmp_path / "copy", tmp_path / "other" / "plans.sqlite")
    with open_store(tmp_path / "other") as catalog:
        assert catalog.view(key).incarnation not in (before, "")
        assert catalog.view(key).last_number == 1


def test_a_store_that_is_older_than_its_checkpoints_begins_its_log_anew(home: Path, tmp_path: Path) -> None:
    key = PlanKey("Digits", "version:1", "{}", 0)

    def claimed() -> str:
        with open_store(home) as catalog, closing(catalog.plan(key)) as store:
            store.claim(open_checkpoints(checkpoint_folder(home, key), None))
            return store.incarnation

    before = claimed()
    shutil.copy(home / "plans.sqlite", tmp_path / "copy")
    assert claimed() == before
    shutil.copy(tmp_path / "copy", home / "plans.sqlite")
    for ending in ("-wal", "-shm"):
        (home / f"plans.sqlite{ending}").unlink(missing_ok=True)
    assert claimed() != before


def test_what_is_given_up_or_refused_is_a_fact(home: Path) -> None:
    key = PlanKey("Digits", "version:1", "{}", 0)
    with open_store(home) as catalog, closing(catalog.plan(key)) as store:
        store.write([NodeAdded(0, None, 0, CONFIG), CheckpointKept(AT, Checkpoint("one", 1, "abc"))])
        assert store.give_up_checkpoints(open_checkpoints(checkpoint_folder(home, key), None)) == 1
        assert list(store.facts(2)) == [(3, CheckpointDropped(AT))]
