"""Who pays for what runs, and how slots go from one study or plan to another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.machine import Machine
from engine.world import World, metrics_of, trained_alone
from hippotune.protocol.commands import RunLease
from hippotune.protocol.events import OthersWait, OwnerSet, RequestWithdrawn, Woken
from hippotune.protocol.proof import ProofPolicy
from hippotune.scheduling import Fluid
from hippotune.sequences import Config, MultiStep

ALIKE = Config({"lr": 0.1})
EARLY = Config({"lr": MultiStep(0.1, [4], 0.1)})
LATE = Config({"lr": MultiStep(0.1, [7], 0.5)})
OTHER = Config({"lr": 0.3})
STEPS = 10
UNIQUE = STEPS + (STEPS - 4) + (STEPS - 7) + STEPS


def steps(world: World, number: int, count: int) -> None:
    """Let a worker train some steps; whatever is saved on the way is durable at once."""
    until = world.steps_trained + count
    while world.steps_trained < until:
        assert world.move(number)
        world.write(number)


def able(world: World) -> list[Callable[[], object]]:
    """Return what can happen next, where slots do not come back that others have."""
    most = world.engine.state.most_slots
    is_full = most is not None and world.engine.workers.staying >= most
    return [
        move for move in world.moves() if not (is_full and getattr(move, "func", None) == world.come_back)
    ]


def leases(world: World) -> list[tuple[str, int, int]]:
    """Return whose turn it was, from where, to which step, of all leases so far."""
    return [
        (
            world.engine.asked_by(each.lease)[0] if each.lease in world.engine.leases else "",
            each.start,
            each.end,
        )
        for each in world.commands
        if isinstance(each, RunLease)
    ]


# Who pays.


def test_a_shared_stage_is_paid_in_equal_parts_by_those_who_wait_below_it() -> None:
    world = World(slots=1)
    world.tick = 0.0
    world.submit((ALIKE, STEPS), study="one")
    world.submit((EARLY, STEPS), study="two")
    start = world.now
    for _ in range(4):
        world.now += 3
        steps(world, 0, 1)
    assert world.engine.spent("one", world.now) == world.engine.spent("two", world.now) == 6.0
    world.move(0)
    assert world.write(0), "at the step where they part"
    for _ in range(6):
        world.now += 3
        steps(world, 0, 1)
    spent = [world.engine.spent(study, world.now) for study in ("one", "two")]
    assert sum(spent) == world.now - start
    assert sorted(spent) == [6.0, 6.0 + 18.0]


@given(st.data(), st.booleans())
def test_charges_add_up_to_what_slots_have_worked(data: st.DataObject, wide: bool) -> None:
    world = World(slots=2, policy=Fluid() if wide else None)
    studies = ["one", "two", "three"]
    asks = [(config, study) for config in (ALIKE, EARLY, LATE, OTHER) for study in studies]
    open_requests = []
    while (moves := world.moves()) or asks:
        if asks and (not moves or data.draw(st.integers(0, 3)) == 0):
            config, study = asks.pop(data.draw(st.integers(0, len(asks) - 1)))
            open_requests += world.submit((config, STEPS), study=study)
        elif open_requests and data.draw(st.integers(0, 19)) == 0:
            world.feed(RequestWithdrawn(open_requests.pop().id))
        else:
            moves[data.draw(st.integers(0, len(moves) - 1))]()
    spent = sum(world.engine.spent(study, world.now) for study in studies)
    assert spent == pytest.approx(world.engine.worker_seconds)
    assert world.engine.spent("nobody", world.now) == 0.0


# Turns within a plan.


def test_a_lease_ends_at_a_boundary_while_a_study_waits_that_was_served_less() -> None:
    world = World(slots=1)
    world.submit((ALIKE, STEPS), (EARLY, STEPS), study="one")
    steps(world, 0, 2)
    world.submit((OTHER, STEPS), study="two")
    steps(world, 0, 2)
    while world.engine.leases[0].state == "running" if 0 in world.engine.leases else False:
        world.move(0)
    assert [each.study for each in world.engine.leases.values() if each.state == "running"] == ["two"]
    world.run()
    assert world.steps_trained == STEPS + (STEPS - 4) + STEPS


def test_a_study_alone_has_its_paths_whole() -> None:
    world = World(slots=1, checkpoint_every=2.0)
    world.submit((ALIKE, STEPS), (EARLY, STEPS), study="one")
    world.run()
    assert [(start, end) for _, start, end in leases(world)] == [(0, STEPS), (4, STEPS)]


def test_users_come_before_studies() -> None:
    world = World(slots=1)
    world.feed(OwnerSet("alone", "one user"))
    for number in range(5):
        world.feed(OwnerSet(f"study {number}", "another"))
        world.submit(
            *[(Config({"lr": at, "number": number}), 2) for at in range(1, 20)], study=f"study {number}"
        )
    world.submit(*[(Config({"lr": at, "number": -1}), 2) for at in range(1, 100)], study="alone")
    for _ in range(450):
        world.moves()[0]()
    alone = world.engine.spent("alone", world.now)
    others = [world.engine.spent(f"study {number}", world.now) for number in range(5)]
    assert alone == pytest.approx(sum(others), abs=15)
    assert max(others) - min(others) <= 10


# Other plans wait.


@given(st.data(), st.booleans(), st.sampled_from([None, Fluid(max_width=2), Fluid(packing=2)]), st.booleans())
def test_no_step_is_trained_twice_and_every_result_is_right_whoever_waits(
    data: st.DataObject, delayed: bool, policy: Fluid | None, proved: bool
) -> None:
    proofs = ProofPolicy("Trainer", audit=0.5) if proved else None
    every = data.draw(st.sampled_from([None, 5.0, 20.0]))
    world = World(slots=3, delayed=delayed, policy=policy, proofs=proofs, checkpoint_every=every)
    configs = [ALIKE, EARLY, LATE, OTHER]
    requests = []
    for config in configs:
        requests += world.submit((config, STEPS), study=data.draw(st.sampled_from(["one", "two"])))
    changes = data.draw(
        st.lists(st.tuples(st.integers(0, 12), st.sampled_from([None, 0, 1, 2, 3])), max_size=6)
    )
    for after, limit in [*changes, (0, None)]:
        for _ in range(after):
            if moves := able(world):
                moves[data.draw(st.integers(0, len(moves) - 1))]()
        world.feed(OthersWait(limit))
    world.run(lambda count: data.draw(st.integers(0, count - 1)))
    answers = {answer.request: answer.metrics for answer in world.answers}
    assert answers == {
        request.id: metrics_of(trained_alone(config, STEPS))
        for request, config in zip(requests, configs, strict=True)
    }
    assert world.steps_trained == UNIQUE
    assert not world.engine.plan.interim
    spent = sum(world.engine.spent(study, world.now) for study in ("one", "two"))
    work = world.engine.proof_work
    assert spent == pytest.approx(world.engine.worker_seconds + work.seconds + work.startup_seconds)


def test_a_slot_is_let_go_at_a_boundary_and_an_idle_one_at_once() -> None:
    world = World(slots=3)
    world.submit((ALIKE, STEPS), (EARLY, STEPS), (OTHER, STEPS))
    world.feed(OthersWait(2))
    assert len(world.released) == 1
    steps(world, 0, 2)
    world.feed(OthersWait(1))
    steps(world, 0, 2)
    while 0 in world.workers and world.workers[0].lease is not None:
        world.move(0)
    assert 0 in world.released, "at step 4, where another trial leaves; the other has six steps to go"
    assert world.workers[1].lease is not None
    assert world.engine.workers.slots == 1


def test_a_long_stage_is_interrupted_after_a_while_and_what_it_saves_there_is_gone_when_it_has_gone_on() -> (
    None
):
    world = World(slots=1, checkpoint_every=20.0)
    world.submit((OTHER, 30))
    steps(world, 0, 3)
    world.feed(OthersWait(0))
    assert world.alarms
    steps(world, 0, 2)
    world.ring()
    while world.workers[0].lease is not None:
        world.move(0)
    world.write(0)
    reached = world.steps_trained
    assert reached < 30
    assert [position.step for position in world.engine.plan.interim] == [reached]
    world.feed(OthersWait(None))
    world.run()
    assert world.steps_trained == 30
    assert len(world.disk) == 1, "the end alone"


def test_one_that_ends_when_nobody_waits_any_more_goes_on_where_it_was() -> None:
    world = World(slots=1, checkpoint_every=20.0)
    world.submit((OTHER, 30))
    steps(world, 0, 3)
    world.feed(OthersWait(0))
    world.feed(OthersWait(None))
    world.feed(Woken(min(world.alarms)))
    world.run()
    assert [(start, end) for _, start, end in leases(world)] == [(0, 30)]


# Several plans on one pool.


def test_two_users_with_one_and_ten_studies_have_equal_slot_seconds() -> None:
    machine = Machine(slots=2, plans=3)
    machine.ask(0, "alone", "one user", configs=30, steps=20)
    many = [f"study {number}" for number in range(10)]
    for number, study in enumerate(many):
        machine.ask(number % 3, study, "another", configs=4, steps=20)
    machine.run(400)
    alone, others = machine.spent("alone"), [machine.spent(study) for study in many]
    assert alone + sum(others) == pytest.approx(2 * 400, rel=0.02), "no slot was idle"
    assert alone == pytest.approx(sum(others), abs=60)
    assert min(others) > 0, "and every study has had its turn"


def test_one_that_comes_later_has_an_equal_share_from_then_on() -> None:
    machine = Machine(slots=2, plans=2)
    machine.ask(0, "first", "", configs=50, steps=15)
    machine.run(100)
    before = machine.spent("first")
    assert before == pytest.approx(200, abs=4)
    machine.ask(1, "second", "", configs=30, steps=15)
    machine.run(300)
    assert machine.spent("second") == pytest.approx(machine.spent("first") - before, abs=40)


def test_more_plans_than_slots_take_turns() -> None:
    machine = Machine(slots=1, plans=3, checkpoint_every=30.0)
    for plan in range(3):
        machine.ask(plan, f"study {plan}", f"user {plan}", configs=2, steps=300)
    machine.run(450)
    assert [machine.spent(f"study {plan}") for plan in range(3)] == pytest.approx([150] * 3, abs=35)
    for world in machine.worlds:
        spans = [(fact.node, step) for fact in world.spans() for step in range(fact.first, fact.last)]
        assert len(set(spans)) == len(spans), "nothing was trained twice"


def test_a_plan_without_work_holds_nothing_that_others_want() -> None:
    machine = Machine(slots=2, plans=2)
    machine.ask(0, "short", "", configs=2, steps=5)
    machine.run(20)
    assert machine.holds(0) == 2, "they are warm"
    machine.ask(1, "long", "", configs=5, steps=50)
    machine.run(1)
    assert (machine.holds(0), machine.holds(1)) == (0, 2)


def test_a_lease_whose_turn_is_over_takes_on_nothing_more() -> None:
    world = World(slots=1, checkpoint_every=5.0)
    world.submit((ALIKE, 30), study="one")
    world.submit((OTHER, 30), study="two")
    (lease,) = world.engine.leases.values()
    while lease.cut != "at a step":
        assert world.move(0)
    end = lease.end
    world.submit((ALIKE, 20), study="one")
    assert lease.end == end < 20
