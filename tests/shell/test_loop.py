"""The loop between an engine and its executor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hippotune.engine.core import Engine
from hippotune.engine.options import EngineOptions
from hippotune.executors.base import Emit, Executor, Job
from hippotune.executors.simulated.executor import Simulated
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import Fact, StudyStopped
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import ExecutorCommand, RunLease
from hippotune.protocol.events import (
    ActionTaken,
    GroupSubmitted,
    MetricsReported,
    Progressed,
    Request,
    WorkerJoined,
    WorkerLost,
)
from hippotune.protocol.failures import Retries
from hippotune.sequences import Config
from hippotune.shell.loop import Loop
from hippotune.shell.writer import FactWriter, ImmediateWriter, Writer
from hippotune.store.base import Store
from hippotune.store.catalog import open_store
from hippotune.store.memory import MemoryStore
from hippotune.study.progress import Progress
from hippotune.study.tuning import Tuning
from hippotune.tuners.base import TrialGroup


class Noted(Executor):
    """Does nothing, and keeps what it was told."""

    workers = 1

    def __init__(self) -> None:
        self.told: list[ExecutorCommand] = []

    async def start(self, job: Job, emit: Emit) -> None: ...

    def carry_out(self, command: ExecutorCommand) -> None:
        self.told.append(command)

    async def close(self) -> None: ...


def test_a_worker_that_takes_the_place_of_a_lost_one_never_gets_the_lease_of_that() -> None:
    async def course() -> list[ExecutorCommand]:
        executor = Noted()
        engine = Engine(Plan(), EngineOptions(retries=Retries(pause=0.0)))
        loop = Loop(engine, executor, ImmediateWriter(MemoryStore()))
        loop.handle(WorkerJoined(0))
        for event in (WorkerLost(0, "killed"), WorkerJoined(0)):
            loop.emit(event)  # the engine hears of it later
        loop.handle(GroupSubmitted((Request(1, "study", 0, Config({"lr": 0.1}), 5),)))
        assert executor.told == []
        while not executor.told:
            await asyncio.sleep(0)
        return executor.told

    (lease,) = asyncio.run(asyncio.wait_for(course(), 300))
    assert isinstance(lease, RunLease)
    assert lease.lease == 1, "the first one is lost"


def test_virtual_time_goes_on_after_a_wait_that_was_cancelled() -> None:
    async def course() -> list[int]:
        executor = Simulated(1)
        loop = Loop(Engine(Plan()), executor, ImmediateWriter(MemoryStore()))
        await executor.start(Job(object), loop.emit)
        one, other = (TrialGroup.of([Config({"lr": lr})], 5) for lr in (0.1, 0.2))
        waiting = asyncio.create_task(Tuning(loop, "study").once(one))
        await asyncio.sleep(0)  # now it waits
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        results = await Tuning(loop, "study").once(other)
        return [result.step for result in results]

    assert asyncio.run(asyncio.wait_for(course(), 300)) == [5]


def test_a_follower_hears_every_fact_once_with_its_number_and_one_that_fails_stops_nothing(
    tmp_path: Path,
) -> None:
    """It hears facts before what waits for their commit, on the event loop."""

    async def course(store: Store, writer: FactWriter) -> list[tuple[int, Fact]]:
        notes: list[str] = []
        loop = Loop(Engine(Plan()), Noted(), writer, note=notes.append)
        heard: list[tuple[int, Fact]] = []
        others: list[int] = []

        def fails(first: int, facts: Sequence[Fact]) -> None:
            others.append(first)
            raise OSError("full")

        loop.log.follow(fails)
        end = loop.log.follow(lambda first, facts: heard.extend(enumerate(facts, first)))
        for trial in range(3):
            loop.handle(GroupSubmitted((Request(trial, "study", trial, Config({"lr": 0.1}), 5),)))
        await loop.wait_idle()
        loop.handle(ActionTaken(StudyStopped("study", 1.0)))
        await loop.wait_idle()
        assert heard == list(store.facts())
        assert others == [1]
        assert len(notes) == 1
        assert "OSError: full" in notes[0]
        end()
        loop.handle(ActionTaken(StudyStopped("study", 2.0)))
        await loop.wait_idle()
        assert writer.published is None
        return heard

    async def in_memory() -> list[tuple[int, Fact]]:
        store = MemoryStore()
        return await course(store, ImmediateWriter(store))

    async def in_a_file() -> list[tuple[int, Fact]]:
        with open_store(tmp_path) as catalog, closing(catalog.plan(PlanKey("T", "1", "{}", 0))) as store:
            writer = Writer(store, asyncio.get_running_loop())
            with closing(writer):
                return await course(store, writer)

    heard = asyncio.run(asyncio.wait_for(in_memory(), 300))
    assert asyncio.run(asyncio.wait_for(in_a_file(), 300)) == heard
    assert [type(fact).__name__ for _, fact in heard] == ["NodeAdded", *["RequestMade"] * 3, "StudyStopped"]


def test_results_that_wait_for_the_database_are_counted_once() -> None:
    class Away(FactWriter):
        def submit(self, facts: Sequence[Fact], then: Any) -> None: ...

    async def course() -> tuple[int, int]:
        executor = Noted()
        loop = Loop(Engine(Plan()), executor, Away())
        loop.handle(WorkerJoined(0))
        tuning = Tuning(loop, "study")
        runtime: Any = SimpleNamespace(loop=loop, ask=lambda question: question())
        progress = Progress("study", "loss", "min", runtime)
        progress.begin(tuning)
        tuning.submit(TrialGroup.of([Config({"lr": 0.1}), Config({"lr": 0.2})], 1))
        lease = next(command for command in executor.told if isinstance(command, RunLease))
        loop.handle(Progressed(lease.lease, 1, 1, 0.1))
        loop.handle(MetricsReported(lease.lease, 1, {"loss": 1.0}, 0.1))
        snapshot = progress.snapshot()
        assert snapshot is not None
        return snapshot.requests_answered, snapshot.requests

    assert asyncio.run(course()) == (1, 2)
