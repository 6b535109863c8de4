"""What the engine makes of saves that fail, checkpoints that are not there, and room that is short."""

from __future__ import annotations

from engine.world import World, metrics_of, trained_alone
from hippotune.plan.facts import Position
from hippotune.protocol.commands import Abort, RunLease
from hippotune.protocol.events import (
    CheckpointLost,
    GroupSubmitted,
    LeaseFinished,
    Paused,
    Request,
    RequestWithdrawn,
    Resumed,
    SaveFailed,
)
from hippotune.sequences import Config, MultiStep

FLAT = Config({"lr": 0.1})
DROP = Config({"lr": MultiStep(0.1, [4], 0.1)})


def answers(world: World) -> dict[int, object]:
    return {answer.request: answer.metrics for answer in world.answers if answer.final}


def test_a_save_that_fails_at_the_end_of_a_lease_is_not_waited_for() -> None:
    world = World()
    world.submit((FLAT, 5))
    worker = world.workers[0]
    while not worker.writing:
        world.move(0)
    lease, step, *_ = worker.writing.pop()
    worker.run = None
    world.feed(SaveFailed(lease, step, "no room", kind="disk full"))
    world.feed(LeaseFinished(lease, step))
    assert world.engine.leases == {}
    assert [command.disk_full for command in world.commands if isinstance(command, Abort)] == [True]


def test_a_checkpoint_that_turns_out_to_be_lost_is_trained_again_when_it_is_needed() -> None:
    world = World()
    world.submit((FLAT, 5))
    world.run()
    world.feed(CheckpointLost(Position(0, 5)))
    assert world.disk == {}
    world.feed(CheckpointLost(Position(0, 5)))
    request = Request(99, "study", 0, FLAT, 5, keep=True)
    world.feed(GroupSubmitted((request,)))
    world.run()
    assert answers(world)[99] == metrics_of(trained_alone(FLAT, 5))
    assert world.steps_trained == 10
    assert list(world.disk) == ["0-5"]


def test_what_somebody_asked_to_keep_outlives_any_budget_until_it_is_withdrawn() -> None:
    world = World(budget=1)
    world.feed(GroupSubmitted((Request(99, "study", 0, FLAT, 5, keep=True),)))
    world.run()
    world.submit((DROP, 8), (Config({"lr": 0.2}), 5), (Config({"lr": 0.3}), 5))
    world.run()
    assert "0-5" in world.disk
    world.feed(RequestWithdrawn(99))
    world.submit((Config({"lr": 0.4}), 5))
    world.run()
    assert "0-5" not in world.disk
    assert len(answers(world)) == 5


def being_written() -> World:
    world = World()
    world.submit((FLAT, 5))
    while not world.workers[0].writing:
        world.move(0)
    while world.workers[0].lease is not None:
        world.move(0)
    world.feed(GroupSubmitted((Request(99, "study", 0, FLAT, 5, keep=True),)))
    return world


def test_a_state_that_is_being_written_is_waited_for_not_saved_again() -> None:
    world = being_written()
    world.run()
    assert answers(world)[99] == metrics_of(trained_alone(FLAT, 5))
    assert [command.start for command in world.commands if isinstance(command, RunLease)] == [0]


def test_a_state_that_was_waited_for_in_vain_is_saved_again() -> None:
    world = being_written()
    lease, step, *_ = world.workers[0].writing.pop()
    assert 99 not in answers(world)
    world.feed(SaveFailed(lease, step, "no luck"))
    world.run()
    assert answers(world)[99] == metrics_of(trained_alone(FLAT, 5))
    assert list(world.disk) == ["0-5"]


def test_nothing_starts_while_more_is_to_come() -> None:
    world = World(slots=2)
    world.feed(Paused())
    world.submit((FLAT, 8), study="one")
    assert world.engine.leases == {}
    world.submit((DROP, 8), study="two")
    world.feed(Resumed())
    world.run()
    assert world.steps_trained == 8 + 4
    assert len(answers(world)) == 2
