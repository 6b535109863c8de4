"""The loop between an engine and its executor."""

from __future__ import annotations

import asyncio

from hippotune.engine.core import Engine
from hippotune.executors.base import Emit, Executor, Job
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import ExecutorCommand, RunLease
from hippotune.protocol.events import GroupSubmitted, Request, WorkerJoined, WorkerLost
from hippotune.protocol.failures import Retries
from hippotune.sequences import Config
from hippotune.shell.loop import Loop
from hippotune.shell.runtime import ImmediateWriter
from hippotune.store.memory import MemoryStore


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
        engine = Engine(Plan(), retries=Retries(pause=0.0))
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
