"""Stages that are saved on their way: what a loss costs, and what stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.world import World, metrics_of, trained_alone
from hippotune.plan.facts import Checkpoint, CheckpointKept, Position
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import Abort, Note, RunLease
from hippotune.protocol.events import CheckpointSaved, RequestWithdrawn, SaveFailed
from hippotune.protocol.failures import Retries
from hippotune.sequences import Config, MultiStep

FLAT = Config({"lr": 0.1})


def drop_at(step: int) -> Config:
    return Config({"lr": MultiStep(0.1, [step], 0.1)})


def interims(world: World) -> list[int]:
    """Return the steps of all interim checkpoints that ever were, in their order."""
    kept = (fact for fact in world.facts if isinstance(fact, CheckpointKept))
    return [fact.position.step for fact in kept if fact.checkpoint.interim]


def train(world: World, steps: int) -> None:
    """Let a lone worker train some steps; what it saves is written while it trains the next one."""
    goal = world.steps_trained + steps
    while world.steps_trained < goal and world.workers[0].lease:
        is_writing = bool(world.workers[0].writing)
        world.move(0)
        if is_writing:
            world.write(0)


def starts(world: World) -> list[int]:
    return [command.start for command in world.commands if isinstance(command, RunLease)]


def test_the_newest_replaces_the_one_before_when_it_is_durable_and_is_gone_when_the_stage_ends() -> None:
    world = World(checkpoint_every=5.0)
    world.submit((FLAT, 30))
    while not (saved := interims(world)):
        train(world, 1)
    while not world.workers[0].writing:
        assert world.move(0)
    assert list(world.disk) == [f"0-{saved[0]}"], "it stays while the next one is being written"
    world.write(0)
    assert list(world.disk) == [f"0-{interims(world)[1]}"]
    world.run()
    assert list(world.disk) == ["0-30"]
    assert len(starts(world)) == 1, "no stage is split"


@given(st.integers(20, 60), st.integers(2, 20), st.lists(st.integers(0, 40), max_size=3))
def test_a_loss_costs_at_most_the_interval_and_the_step_and_the_write_that_it_came_in(
    length: int, every: int, losses: list[int]
) -> None:
    world = World(checkpoint_every=float(every), retries=Retries(9, 1))
    world.submit((FLAT, length))
    cost = 0
    for loss in losses:
        while world.alarms:
            world.ring()
        train(world, loss)
        if (run := world.workers[0].run) is not None and not run.over:
            at = run.at
            world.kill(0)
            kept = [position.step for position, _ in world.engine.plan.checkpoints()]
            lost = at - max(kept, default=0)
            assert lost <= every + 2, "a step takes a tick or two"
            cost += lost
    world.run()
    assert world.steps_trained == length + cost
    assert world.answers[-1].metrics == metrics_of(trained_alone(FLAT, length))
    assert not world.engine.plan.interim


def test_a_driver_that_is_run_again_goes_on_from_the_newest() -> None:
    world = World(checkpoint_every=10.0)
    world.submit((FLAT, 60), (drop_at(50), 60))
    train(world, 40)
    again = World(plan=Plan.replay(world.facts), checkpoint_every=10.0)
    again.disk = dict(world.disk)
    again.submit((drop_at(2), 5))  # what the other is to go on from stays meanwhile
    again.run()
    again.submit((FLAT, 60), (drop_at(50), 60))
    again.run()
    newest = interims(world)[-1]
    assert 30 < newest <= 40
    assert newest in starts(again)
    assert {command.checkpoint for command in again.doomed} == set()
    assert set(again.disk) >= {"0-50", "0-60"}
    assert f"0-{newest}" not in again.disk


def test_a_branch_from_an_interim_checkpoint_makes_it_lasting() -> None:
    world = World(checkpoint_every=10.0)
    world.submit((FLAT, 60))
    train(world, 30)
    at = interims(world)[-1]
    world.submit((drop_at(at), 60))
    world.run()
    assert world.steps_trained == 60 + 60 - at
    assert f"0-{at}" in world.disk
    assert not world.engine.plan.interim


def test_a_request_that_ends_at_an_interim_checkpoint_makes_it_lasting() -> None:
    world = World(checkpoint_every=10.0)
    world.submit((FLAT, 60))
    train(world, 30)
    at = interims(world)[-1]
    world.submit((FLAT, at))
    world.run()
    assert world.steps_trained == 60
    assert set(world.disk) == {f"0-{at}", "0-60"}


def test_one_that_is_asked_for_while_it_is_being_written_is_a_lasting_one() -> None:
    world = World(checkpoint_every=10.0, delayed=True)
    world.submit((FLAT, 60))
    while not world.workers[0].writing:
        world.move(0)
    at = len(world.workers[0].state)
    world.submit((drop_at(at), 60))
    world.run()
    assert world.steps_trained == 60 + 60 - at
    assert f"0-{at}" in world.disk


def test_a_branch_behind_the_worker_starts_from_an_interim_checkpoint_which_stays_until_then() -> None:
    world = World(checkpoint_every=10.0)
    world.submit((FLAT, 60))
    train(world, 25)
    at = interims(world)[-1]
    world.submit((drop_at(at + 1), 60))
    world.run()
    assert world.steps_trained == 60 + 1 + 60 - (at + 1)
    assert set(world.disk) == {f"0-{at + 1}", "0-60", "1-60"}


def test_a_trial_that_fails_or_is_withdrawn_leaves_none_behind() -> None:
    world = World(checkpoint_every=10.0)
    world.fails_at = lambda config, step: step == 40
    (request,) = world.submit((FLAT, 60))
    world.run()
    assert interims(world)
    assert world.disk == {}
    (request,) = world.submit((Config({"lr": 0.2}), 30))
    train(world, 20)
    world.feed(RequestWithdrawn(request.id))
    world.run()
    assert list(world.disk) == ["1-20"]


def test_a_suspended_stage_goes_on_from_its_newest_when_it_is_retried() -> None:
    world = World(checkpoint_every=10.0, retries=Retries(0, 1))
    world.crashes_at = lambda config, step: step == 35
    world.submit((FLAT, 60))
    while not world.answers:
        train(world, 60)
        if world.alarms:
            world.ring()
    assert world.answers[-1].suspended
    newest = interims(world)[-1]
    assert list(world.disk) == [f"0-{newest}"]
    again = World(plan=Plan.replay(world.facts), checkpoint_every=10.0)
    again.disk = dict(world.disk)
    again.engine.plan.clear(Position(0, 36))
    again.submit((FLAT, 60))
    again.run()
    assert starts(again) == [newest]
    assert list(again.disk) == ["0-60"]


@pytest.mark.parametrize("full", [False, True])
def test_one_that_cannot_be_written_is_told_and_training_goes_on(full: bool) -> None:
    world = World(checkpoint_every=10.0)
    world.submit((FLAT, 60))
    while not world.workers[0].writing:
        world.move(0)
    lease, step, *_ = world.workers[0].writing.pop()
    world.feed(
        SaveFailed(lease, step, "OSError: no luck", kind="disk full" if full else "raised", interim=True)
    )
    assert any(isinstance(command, Note) and "no luck" in command.text for command in world.commands)
    world.run()
    assert not any(isinstance(command, Abort) for command in world.commands)
    assert interims(world), "it is tried again"
    assert list(world.disk) == ["0-60"]


def test_with_a_budget_only_long_leases_save_on_their_way_and_have_room_for_two() -> None:
    world = World(budget=4, checkpoint_every=40.0)
    world.submit((FLAT, 10))
    world.run()
    assert interims(world) == []
    world.submit((FLAT, 200))
    train(world, 200)
    assert interims(world)
    world.run()
    assert world.most_on_disk <= 4
    world = World(budget=1, checkpoint_every=40.0)
    world.submit((FLAT, 10))
    world.run()
    world.submit((FLAT, 200))
    train(world, 200)
    assert interims(world) == [], "there is never room for two"


def test_where_there_is_a_checkpoint_a_second_one_goes() -> None:
    world = World(checkpoint_every=10.0)
    world.submit((FLAT, 60))
    train(world, 25)
    at = interims(world)[-1]
    (number,) = world.engine.leases
    for interim in (True, False, True):
        world.disk["another"] = ()
        world.feed(CheckpointSaved(number, at, Checkpoint("another", 1, "", interim=interim)))
        assert world.engine.plan[0].checkpoints[at].name == f"0-{at}"
        assert "another" not in world.disk
    assert not world.engine.plan[0].checkpoints[at].interim
