"""Several processes on one store: one writer per plan, and none that can be left behind."""

from __future__ import annotations

import os
import socket
import sqlite3
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import Popen

import pytest

from hippotune.errors import StoreError
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import MetricsRecorded
from hippotune.store import sqlite
from hippotune.store.base import Store
from hippotune.store.catalog import Catalog, PlanInUse, open_store
from store.programs import BATCH, KEY, running

MOST_TRIES = 100  # each waits a while for the lock


def line(process: Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def opened(catalog: Catalog) -> Store:
    """Open the plan of a process that was killed. A server may notice late that its client is gone."""
    for _ in range(MOST_TRIES):
        with suppress(PlanInUse):
            return catalog.plan(KEY)
    raise AssertionError("the plan of a process that was killed never becomes free")


def test_a_writer_that_is_killed_loses_nothing_that_it_was_told_is_durable(
    home: Path, url: str | None
) -> None:
    with running("write", home, url) as process:
        assert process.stdout is not None
        said = [line(process) for _ in range(20)]
        process.kill()
        acknowledged = int([*said, *process.stdout][-1])
    with open_store(home, url) as catalog:
        store = opened(catalog)
        orders = [fact.order for fact in store.read() if isinstance(fact, MetricsRecorded)]
        assert orders == list(range(len(orders)))
        assert len(orders) % BATCH == 0
        assert len(orders) >= acknowledged + BATCH
        store.write([])
        store.close()


def test_a_plan_that_is_in_use_is_refused_by_naming_who_uses_it(home: Path, url: str | None) -> None:
    with running("hold", home, url) as process, open_store(home, url) as catalog:
        assert line(process) == "held"
        with pytest.raises(StoreError) as refused:
            catalog.plan(KEY)
        for part in (KEY.digest, f"process {process.pid} ", socket.gethostname(), "UTC", "programs.py hold"):
            assert part in str(refused.value)


def test_a_plan_in_use_can_be_read_and_other_plans_can_be_written(home: Path, url: str | None) -> None:
    with running("hold", home, url) as process:
        assert line(process) == "held"
        with open_store(home, url, create=False) as catalog:
            assert list(catalog.view(KEY).read()) == []
            catalog.plan(PlanKey("Digits", "version:2", "{}", 0)).close()


def test_a_plan_is_free_again_when_its_process_ends_or_is_killed(home: Path, url: str | None) -> None:
    with open_store(home, url) as catalog:
        with running("hold", home, url) as process:
            assert line(process) == "held"
            process.communicate("")
        opened(catalog).close()
        with running("hold", home, url) as process:
            assert line(process) == "held"
            process.kill()
            process.wait()
            opened(catalog).close()


def test_a_forked_child_does_not_keep_the_plan_of_a_parent_that_was_killed(
    home: Path, url: str | None
) -> None:
    with running("fork", home, url) as process, open_store(home, url) as catalog:
        assert line(process) == "forked"
        process.kill()
        process.wait()
        opened(catalog).close()
        assert process.stdin is not None
        process.stdin.close()


def test_a_plan_that_this_process_uses_is_refused_by_saying_so(catalog: Catalog) -> None:
    store = catalog.plan(KEY)
    with pytest.raises(StoreError, match="this very process"):
        catalog.plan(KEY)
    store.close()
    catalog.plan(KEY).close()


def test_many_processes_may_make_a_store_at_once(home: Path, url: str | None) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(running("create", home, url)) for _ in range(3)]
        for process in processes:
            assert line(process) == "ready"
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        assert [line(process) for process in processes] == ["opened"] * 3


def test_a_lock_file_that_says_nothing_yet_still_refuses(home: Path) -> None:
    with open_store(home) as catalog:
        store = catalog.plan(KEY)
        os.truncate(home / "locks" / f"{KEY.digest}.lock", 0)
        with pytest.raises(StoreError, match="in use by another process"):
            catalog.plan(KEY)
        store.close()


def test_a_database_that_another_process_is_making_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(tmp_path / "hippo.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waited = []

    def commit(_: float) -> None:
        waited.append(other.execute("COMMIT"))

    monkeypatch.setattr("hippotune.store.sqlite.sleep", commit)
    with sqlite.open_file(tmp_path / "hippo.db").connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    other.close()
    assert len(waited) == 1
