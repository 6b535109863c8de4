"""A fault stays where it is: what the engine makes of lost workers, and of what cannot be saved or read."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.world import Worker, World, metrics_of, trained_alone
from hippotune.plan.facts import FailureRecorded, Position
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import Abort, Note, RunLease
from hippotune.protocol.events import LeaseFailed, SaveFailed, Woken, WorkerJoined, WorkerLost
from hippotune.protocol.failures import LossKind, Retries
from hippotune.protocol.proof import ProofPolicy
from hippotune.sequences import Config, MultiStep

FLAT = Config({"lr": 0.1})
DROP = Config({"lr": MultiStep(0.1, [4], 0.1)})
OTHER = Config({"lr": MultiStep(0.1, [4], 0.5)})
LATE = Config({"lr": MultiStep(0.1, [8], 0.5)})


def leases(world: World) -> list[RunLease]:
    return [command for command in world.commands if isinstance(command, RunLease)]


def outcomes(world: World) -> dict[int, str]:
    """Say what became of each request."""
    finals = [answer for answer in world.answers if answer.final]
    return {
        answer.request: "fine" if answer.error is None else "suspended" if answer.suspended else "failed"
        for answer in finals
    }


def move_until(world: World, step: int) -> None:
    while world.workers[0].lease is not None and len(world.workers[0].state) < step:
        world.move(0)


def test_a_trial_that_crashes_its_worker_after_a_branch_is_suspended_and_its_siblings_are_trained() -> None:
    world = World(slots=1)
    crasher, sibling, through = world.submit((DROP, 10), (OTHER, 10), (FLAT, 10))
    world.crashes_at = lambda config, step: config == DROP and step == 4
    world.run()
    assert outcomes(world) == {crasher.id: "suspended", sibling.id: "fine", through.id: "fine"}
    [fact] = [fact for fact in world.facts if isinstance(fact, FailureRecorded)]
    assert fact.suspended
    assert fact.position.step == 5
    assert world.engine.plan[fact.position.node].config == DROP


def test_before_a_shared_stage_is_blamed_it_is_retried_alone_to_the_branch_and_no_further() -> None:
    world = World(slots=1)
    world.submit((DROP, 10), (OTHER, 10))
    world.crashes_at = lambda config, step: step == 2
    world.run()
    assert set(outcomes(world).values()) == {"suspended"}
    assert [(lease.start, lease.end) for lease in leases(world)] == [(0, 10), (0, 4), (0, 4), (0, 4)]


@given(
    st.integers(1, 3),
    st.integers(0, 2**31),
    st.integers(0, 3),
    st.sampled_from([None, 3]),
    st.sampled_from([DROP, OTHER, LATE, FLAT]),
)
def test_no_trial_that_crashes_its_worker_after_a_branch_ever_takes_a_sibling_with_it(
    slots: int, seed: int, retries: int, budget: int | None, crasher: Config
) -> None:
    chance = random.Random(seed)
    world = World(slots, delayed=True, budget=budget, retries=Retries(retries))
    at = chance.randint(8, 9)
    world.crashes_at = lambda config, step: config == crasher and step == at
    requests = world.submit((DROP, 10), (OTHER, 12), (FLAT, 14), (LATE, 10), (OTHER, 6), reports=(4,))
    world.run(chance.randrange)
    for request in requests:
        fate = "suspended" if request.config == crasher and request.step > at else "fine"
        assert outcomes(world)[request.id] == fate
    assert world.aborts == []


@given(st.integers(1, 3), st.integers(0, 2**31), st.integers(1, 40))
def test_kills_from_outside_never_make_a_lasting_failure(slots: int, seed: int, kills: int) -> None:
    chance = random.Random(seed)
    world = World(slots, delayed=True)
    asks = [(DROP, 10), (OTHER, 12), (FLAT, 14), (LATE, 10)]
    requests = world.submit(*asks, reports=(4, 6))
    total = kills
    while moves := world.moves():
        moves[chance.randrange(len(moves))]()
        if kills and chance.random() < 0.3:
            world.kill(chance.randrange(slots), chance.choice(["died", "hung"]))
            kills -= 1
    fates = outcomes(world)
    assert set(fates.values()) <= {"fine", "suspended"}
    if total <= 3:
        assert set(fates.values()) == {"fine"}
    plan = Plan.replay(world.facts)
    for node in plan.nodes:
        if node.failure is not None:
            world.facts.append(plan.clear(Position(node.id, node.failure.step)))
    again = World(slots, Plan.replay(world.facts))
    again.disk = world.disk
    requests = again.submit(*asks)
    again.run(chance.randrange)
    results = {answer.request: answer.metrics for answer in again.answers}
    for request in requests:
        assert results[request.id] == metrics_of(trained_alone(request.config, request.step))


def test_pauses_between_retries_grow_and_the_study_goes_on_meanwhile() -> None:
    world = World(slots=1, retries=Retries(3, pause=10.0))
    world.submit((DROP, 10), (Config({"lr": 0.3}), 3))
    world.crashes_at = lambda config, step: config == DROP and step == 1
    world.run()
    assert [answer.error is None for answer in world.answers] == [True, False]
    notes = [command.text for command in world.commands if isinstance(command, Note)]
    assert notes == [
        *(
            "the worker of trial 1 of study 'study' was lost before step 2 (died: killed): "
            f"retry {n} in {pause} s"
            for n, pause in ((1, 10), (2, 20), (3, 40))
        ),
        "trial 1 of study 'study' is suspended: its worker was lost 4 times before step 2, "
        "the last time with nothing else on its slot",
    ]
    assert world.now > 10 + 20 + 40


def test_trials_that_are_lost_at_the_same_step_are_told_apart() -> None:
    world = World(slots=2)
    world.submit((FLAT, 5), (Config({"lr": 0.3}), 5))
    for number in (0, 1):
        world.move(number)
    world.kill(0)
    world.kill(1)
    first, second = (command.text for command in world.commands if isinstance(command, Note))
    assert first == second.replace("trial 2", "trial 1") != second


def test_a_pause_that_was_prolonged_is_not_ended_by_the_alarm_of_the_one_before() -> None:
    world = World(slots=1, retries=Retries(3, pause=100.0))
    world.submit((DROP, 10))
    world.move(0)
    world.kill(0)
    world.feed(Woken(world.alarms[0] - 1))
    assert len(leases(world)) == 1
    world.ring()
    assert len(leases(world)) == 2


def test_a_retry_is_on_another_worker_where_there_is_one() -> None:
    world = World(slots=2)
    world.submit((FLAT, 10))
    world.move(0)
    world.kill(0)
    world.ring()
    assert [lease.worker for lease in leases(world)] == [0, 1]


def test_a_stage_that_got_on_after_a_loss_is_in_trouble_no_more() -> None:
    world = World(slots=1)
    (request,) = world.submit((FLAT, 10))
    move_until(world, 3)
    world.kill(0)
    assert world.engine.state.troubles
    world.run()
    assert outcomes(world) == {request.id: "fine"}
    assert not world.engine.state.troubles


@pytest.mark.parametrize(("kind", "times"), [("died", 6), ("hung", 6), ("infrastructure", 3)])
def test_retries_are_by_policy_and_three_lost_machines_are_enough(kind: LossKind, times: int) -> None:
    world = World(slots=1, retries=Retries(5))
    world.submit((FLAT, 10))
    for _ in range(times):
        assert not world.answers
        if world.alarms:
            world.ring()
        move_until(world, 3)
        world.kill(0, kind)
    assert set(outcomes(world).values()) == {"suspended"}
    assert f"lost {times} times before step 4" in (world.answers[-1].error or "")


def test_a_worker_that_hung_is_borne_with_twice_as_long() -> None:
    world = World(slots=1)
    world.submit((FLAT, 10))
    for kind in ("hung", "died", "hung"):
        world.kill(0, kind)  # type: ignore[arg-type]
        world.ring()
    assert [lease.patience for lease in leases(world)] == [1, 2, 2, 4]


def test_a_worker_that_dies_while_it_saves_is_counted_too() -> None:
    world = World(slots=1)
    world.submit((FLAT, 4), keep=True)
    for _ in range(4):
        assert not outcomes(world)
        while world.workers[0].lease is not None:
            world.move(0)
        world.kill(0)
        if world.alarms:
            world.ring()
    assert list(outcomes(world).values()) == ["suspended"]


@pytest.mark.parametrize(("kind", "fate"), [("out of memory", "failed"), ("transient", "suspended")])
def test_errors_that_may_lie_in_the_process_are_retried_in_a_fresh_one_first(kind: str, fate: str) -> None:
    world = World(slots=1)
    world.submit((DROP, 10), (OTHER, 10))
    for _ in range(2 if fate == "failed" else 4):
        while world.workers[0].lease is None or world.workers[0].lease.config != DROP:
            world.moves()[0]()
        while len(world.workers[0].state) < 5:
            world.moves()[0]()
        while world.workers[0].writing:
            world.write(0)
        lease = world.workers[0].lease
        assert lease is not None
        world.workers[0] = Worker(0)
        error = "Traceback\n  in train\nNCCL"
        world.feed(LeaseFailed(lease.lease, 6, error, "train", kind=kind, replaced=(0,)))  # type: ignore[arg-type]
        assert world.workers[0].lease is None, "nothing is given to a worker that is about to go"
        world.feed(WorkerLost(0, "is replaced"))
        world.feed(WorkerJoined(0, 0))
    world.run()
    assert sorted(outcomes(world).values()) == sorted([fate, "fine"])
    (told,) = [answer.error for answer in world.answers if answer.error]
    assert fate == "failed" or "nothing else on its slot: NCCL\n" in told


def test_a_disk_that_is_full_for_user_code_ends_the_study_and_is_no_fact_about_a_trial() -> None:
    world = World(slots=1)
    world.submit((DROP, 10), (OTHER, 10))
    while len(world.workers[0].state) < 5:
        world.moves()[0]()
    lease = world.workers[0].lease
    assert lease is not None
    world.workers[0].run = None
    world.feed(LeaseFailed(lease.lease, 5, "OSError: no room", "train", kind="disk full"))
    (abort,) = [command for command in world.commands if isinstance(command, Abort)]
    assert "make room and run the same script again" in abort.error
    assert "OSError: no room" in abort.error
    assert not [fact for fact in world.facts if isinstance(fact, FailureRecorded)]


def test_a_state_that_cannot_be_saved_fails_its_trial_and_not_the_study() -> None:
    world = World(slots=1)
    short, long, other = world.submit((DROP, 6), (DROP, 10), (OTHER, 10))
    while not (writing := world.workers[0].writing) or writing[-1][1] != 6:
        world.move(0) or world.moves()[0]()
    lease, step, *_ = writing.pop()
    world.feed(SaveFailed(lease, step, "TypeError: cannot pickle a lock"))
    world.run()
    assert outcomes(world) == {short.id: "fine", long.id: "failed", other.id: "fine"}
    assert not [command for command in world.commands if isinstance(command, Abort)]


def test_what_was_measured_before_a_state_could_not_be_saved_stays_measured() -> None:
    world = World(slots=1)
    world.submit((FLAT, 4))
    while not world.workers[0].writing:
        world.move(0)
    lease, step, *_ = world.workers[0].writing.pop()
    world.feed(SaveFailed(lease, step, "TypeError: cannot pickle a lock"))
    world.run()
    world.submit((FLAT, 4), (FLAT, 6))
    assert list(outcomes(world).values()) == ["fine", "fine", "failed"]


def test_a_disk_that_answers_badly_for_a_while_costs_nothing_but_time() -> None:
    world = World(slots=1)
    world.submit((FLAT, 4), keep=True)
    for _ in range(3):
        while not world.workers[0].writing:
            world.moves()[0]()
        lease, step, *_ = world.workers[0].writing.pop()
        world.feed(SaveFailed(lease, step, "OSError: [Errno 5]", kind="transient"))
    world.run()
    assert list(outcomes(world).values()) == ["fine"]
    assert list(world.disk) == ["0-4"]


def test_a_trainer_that_cannot_start_from_a_shared_checkpoint_fails_its_own_trial() -> None:
    world = World(slots=1)
    world.submit((FLAT, 4))
    world.run()
    one, two = world.submit((DROP, 10), (OTHER, 10))
    lease = leases(world)[-1]
    assert lease.start == 4
    world.workers[0].run = None
    world.feed(LeaseFailed(lease.lease, 4, "no", "load"))
    world.run()
    fates = outcomes(world)
    assert sorted((fates[one.id], fates[two.id])) == ["failed", "fine"]


def test_a_late_loss_behind_a_checkpoint_takes_nothing_from_what_goes_on_from_it() -> None:
    world = World(slots=1)
    world.submit((FLAT, 10))
    world.run()
    world.crashes_at = lambda config, step: step == 2
    behind, beyond = world.submit((DROP, 8), (FLAT, 12))
    world.run()
    fates = outcomes(world)
    assert (fates[behind.id], fates[beyond.id]) == ("suspended", "fine")
    (again,) = world.submit((FLAT, 10))
    assert outcomes(world)[again.id] == "fine", "what was measured stays so"


@given(st.integers(1, 3), st.integers(0, 2**31), st.integers(1, 12), st.booleans(), st.booleans())
def test_an_evaluation_that_fails_at_a_shared_step_fails_those_that_need_its_metrics_and_no_others(
    slots: int, seed: int, at: int, kills: bool, proved: bool
) -> None:
    chance = random.Random(seed)
    policy = ProofPolicy("Trainer") if proved else None
    world = World(slots, delayed=True, proofs=policy, retries=Retries(1000, pause=0.0))
    world.cannot_evaluate = lambda config, step: step == at
    asks = [(DROP, 10), (OTHER, 12), (FLAT, 14), (LATE, 9), (OTHER, 6), (FLAT, 3)]
    requests = [world.submit(ask, reports=tuple(chance.sample(range(2, 13), 2)))[0] for ask in asks]
    while moves := world.moves():
        moves[chance.randrange(len(moves))]()
        if kills and chance.random() < 0.05:
            world.kill(chance.randrange(slots))
    fates = {
        request.id: "failed" if at in (*request.reports, request.step) else "fine" for request in requests
    }
    if at > 2:  # the first two steps are those of the rehearsal, which evaluates too
        assert outcomes(world) == fates
        assert world.aborts == []
    again = World(slots, Plan.replay(world.facts))
    again.disk = world.disk
    again.submit(*[(request.config, request.step) for request in requests])
    again.run(chance.randrange)
    assert set(outcomes(again).values()) <= {"fine", "failed"}
