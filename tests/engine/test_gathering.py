"""Widths that are chosen once are chosen when all workers have joined, not with the first."""

from __future__ import annotations

from hippotune.engine.core import Engine
from hippotune.engine.options import EngineOptions
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import Command, RunLease
from hippotune.protocol.events import GroupSubmitted, Request, SlotsAwaited, WorkerJoined
from hippotune.scheduling import Fluid
from hippotune.sequences import Config


def begun(dynamic: bool, most: int = 4) -> Engine:
    """Return an engine that has one long trial to train, and one of four workers."""
    options = EngineOptions(Fluid(max_width=most, dynamic=dynamic))
    engine = Engine(Plan(), options, lambda values, width: True)
    for event in (
        SlotsAwaited(4),
        WorkerJoined(0),
        GroupSubmitted((Request(1, "study", 0, Config({"lr": 0.1}), 90),)),
    ):
        engine.handle(event, 0.0)
    return engine


def width_of(commands: list[Command]) -> list[int]:
    return [int(command.width) for command in commands if isinstance(command, RunLease)]


def test_a_lease_that_keeps_its_width_starts_when_all_slots_are_there() -> None:
    engine = begun(dynamic=False)
    assert not engine.leases
    assert engine.demand(4).slots == {0: 4}
    assert [width_of(engine.handle(WorkerJoined(worker), 1.0)) for worker in (1, 2, 3)] == [[], [], [4]]


def test_slots_that_a_lease_cannot_use_are_not_waited_for() -> None:
    engine = begun(dynamic=False, most=2)
    assert width_of(engine.handle(WorkerJoined(1), 1.0)) == [2]


def test_slots_that_do_not_come_are_not_waited_for_any_longer() -> None:
    engine = begun(dynamic=False)
    assert width_of(engine.handle(SlotsAwaited(0), 60.0)) == [1]


def test_a_lease_that_may_change_its_width_waits_for_nothing() -> None:
    assert len(begun(dynamic=True).leases) == 1
