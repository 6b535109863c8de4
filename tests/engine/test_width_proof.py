"""The proof of width: no result comes of a wide step that was not compared with the same step at width 1."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.test_core import POOL, answered, config, leases
from engine.test_rehearsal import proofs, verdicts
from engine.test_widening import LONG, SHORT, assert_right, in_turns, move_until
from engine.world import World
from hippotune import Fluid
from hippotune.plan.plan import Plan, unique_steps
from hippotune.protocol.commands import Note, RunLease
from hippotune.protocol.events import Halted, RequestWithdrawn
from hippotune.protocol.proof import ProofPolicy
from hippotune.sequences import Config, MultiStep

FIRST = config(0.9)  # which is rehearsed
EXACT = ProofPolicy("Net", audit=0)
AUDITED = ProofPolicy("Net")


def summed(lease: RunLease, values: Any) -> Any:
    """A loss that is a sum: every worker more is another gradient."""
    return (*values, f"times {lease.width}")


def wide_proofs(world: World) -> list[RunLease]:
    return [lease for lease in proofs(world) if lease.peers]


def trained_wide(world: World) -> list[RunLease]:
    return [lease for lease in leases(world) if lease.peers and not lease.proof]


def outcomes(world: World) -> list[tuple[int, str]]:
    return [(fact.width, fact.outcome) for fact in verdicts(world) if fact.kind == "width"]


def notes(world: World) -> list[str]:
    return [command.text for command in world.commands if isinstance(command, Note)]


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_step_at_width_1_and_the_same_step_wide_come_before_the_first_wide_lease(dynamic: bool) -> None:
    world = World(slots=3, policy=Fluid(dynamic=dynamic), proofs=EXACT)
    world.submit((FIRST, 2))
    in_turns(world)
    requests = world.submit((LONG, 60))
    pilot = leases(world)[-1]
    assert (pilot.start, pilot.end, pilot.width, pilot.proof) == (0, 1, 1, False)
    in_turns(world)
    (proof,) = wide_proofs(world)
    assert (proof.start, proof.end, proof.width, len(proof.peers)) == (0, 1, 3, 2)
    first = trained_wide(world)[0]
    assert (first.start, first.width) == (1, 3)
    assert outcomes(world) == [(3, "exact")]
    assert (world.steps_trained, world.steps_proved) == (2 + 60, 3 + 1)
    assert_right(world, requests)


def test_nothing_is_wide_before_the_rehearsal_is_over() -> None:
    world = World(slots=2, policy=Fluid(), proofs=EXACT)
    requests = world.submit((LONG, 60))
    move_until(world, lambda: verdicts(world))
    assert {lease.width for lease in leases(world)} == {1}
    in_turns(world)
    assert trained_wide(world)
    assert_right(world, requests)
    assert world.steps_trained == 60


def test_a_trainer_that_learns_differently_on_several_workers_is_never_widened() -> None:
    world = World(slots=2, policy=Fluid(), proofs=EXACT)
    world.learns_wide = summed
    requests = world.submit((LONG, 60), (config(MultiStep(0.1, [20], 0.1)), 40))
    in_turns(world)
    assert outcomes(world) == [(2, "differs")]
    assert not trained_wide(world)
    assert_right(world, requests)
    assert not world.aborts
    (said,) = [text for text in notes(world) if "several workers" in text]
    assert said.startswith("Net learns differently on several workers than on one. After step ")
    assert "self.values is" in said
    assert world.steps_trained == 80
    again = World(2, Plan.replay(world.facts), policy=Fluid(), proofs=EXACT)
    again.disk, again.learns_wide = world.disk, summed
    again.submit((LONG, 200))
    in_turns(again)
    assert not [lease for lease in leases(again) if lease.peers]


def test_what_rounding_alone_can_do_is_no_difference() -> None:
    world = World(slots=2, policy=Fluid(), proofs=EXACT)
    world.learns_wide, world.rounding = summed, True
    world.submit((LONG, 4))
    in_turns(world)
    world.learns_wide = lambda lease, values: summed(lease, values) if lease.proof else values
    world.submit((LONG, 60))
    in_turns(world)
    assert [lease.nudged for lease in proofs(world)][-2:] == [False, True]
    assert outcomes(world) == [(2, "exact")]
    assert trained_wide(world)


def test_a_wide_step_that_raises_where_one_worker_does_not_is_a_difference() -> None:
    world = World(slots=2, policy=Fluid(), proofs=EXACT)
    world.submit((LONG, 60))
    move_until(world, lambda: wide_proofs(world))
    world.fails_at = lambda config, step: True
    move_until(world, lambda: outcomes(world))
    world.fails_at = lambda config, step: False
    in_turns(world)
    assert outcomes(world) == [(2, "differs")]
    assert "cannot be trained by several workers" in notes(world)[-1]
    assert not trained_wide(world)


@pytest.mark.parametrize("proof", [True, False])
def test_workers_that_fall_out_of_step_leave_the_rest_to_one_worker(proof: bool) -> None:
    world = World(slots=2, policy=Fluid(), proofs=EXACT)
    world.out_of_step = lambda lease, step: lease.proof if proof else step == 40
    requests = world.submit((LONG, 60), reports=(35,))
    in_turns(world)
    assert outcomes(world) == ([(2, "differs")] if proof else [(2, "exact"), (2, "differs")])
    assert bool(trained_wide(world)) is not proof
    assert_right(world, requests)
    assert not world.aborts
    (said,) = [text for text in notes(world) if "Boom" in text]
    assert "trained by one worker at a time" in said
    last = leases(world)[-1]
    assert last.width == 1
    assert last.source is not None or proof  # what was saved on the way is not trained again
    again = World(2, Plan.replay(world.facts), policy=Fluid(), proofs=EXACT)
    again.disk = world.disk
    again.submit((LONG, 200))
    in_turns(again)
    assert not [lease for lease in leases(again) if lease.peers]


def test_every_width_is_proved_once_and_a_proved_plan_not_again() -> None:
    world = World(slots=2, policy=Fluid(), proofs=EXACT)
    world.submit((LONG, 60))
    in_turns(world)
    wider = World(4, Plan.replay(world.facts), policy=Fluid(), proofs=EXACT)
    wider.disk = world.disk
    requests = wider.submit((SHORT, 90))
    in_turns(wider)
    assert outcomes(world) == [(2, "exact")]
    assert 2 not in dict(outcomes(wider))
    assert 4 in dict(outcomes(wider))
    assert {int(lease.width) for lease in trained_wide(wider)} <= {2, *dict(outcomes(wider))}
    assert_right(wider, requests)


def test_packed_leases_need_no_proof() -> None:
    world = World(slots=2, policy=Fluid(packing=2, max_width=1), proofs=EXACT)
    world.submit(*[(config(float(rate)), 10) for rate in range(1, 9)])
    in_turns(world)
    assert {lease.width for lease in leases(world)} == {Fraction(1, 2), 1}
    assert not outcomes(world)


def test_what_need_not_be_exact_is_proved_too() -> None:
    world = World(slots=2, policy=Fluid(), proofs=ProofPolicy("Net", exact=False, audit=0))
    world.learns_wide = summed
    requests = world.submit((LONG, 60))
    in_turns(world)
    assert outcomes(world) == [(2, "differs")]
    assert_right(world, requests)


def test_a_proof_that_is_lost_is_made_again_and_given_up_after_some_losses() -> None:
    world = World(slots=2, policy=Fluid(), proofs=EXACT)
    requests = world.submit((LONG, 60))
    for _ in range(2):
        seen = len(wide_proofs(world))
        move_until(world, lambda seen=seen: len(wide_proofs(world)) > seen)
        world.kill(wide_proofs(world)[-1].worker)
    in_turns(world)
    assert outcomes(world) == [(2, "exact")]
    assert_right(world, requests)
    world = World(slots=2, policy=Fluid(), proofs=EXACT)
    world.crashes_at = lambda config, step: any(
        worker.lease and worker.lease.peers for worker in world.workers.values()
    )
    requests = world.submit((LONG, 60))
    in_turns(world)
    assert not outcomes(world)
    assert not trained_wide(world)
    assert "trains every stage on one worker" in notes(world)[-1]
    assert_right(world, requests)


def test_slots_that_others_need_are_not_waited_for() -> None:
    """As many trials as slots, all the time: there is nothing to prove, and nobody waits."""
    world = World(slots=2, policy=Fluid(), proofs=EXACT)
    world.submit((FIRST, 2))
    in_turns(world)
    world.submit((LONG, 30), (SHORT, 30))
    in_turns(world)
    assert len(leases(world)) == 1 + 3 + 2


wrong = st.sampled_from([None, summed])
studies = st.lists(st.tuples(st.sampled_from(POOL), st.integers(1, 50)), min_size=1, max_size=3)
wide_policies = st.builds(
    Fluid, packing=st.integers(1, 2), max_width=st.none() | st.integers(2, 3), dynamic=st.booleans()
)
seeds = st.integers(0, 2**32)


@given(studies, st.integers(2, 4), wide_policies, wrong, seeds)
def test_no_result_depends_on_width_and_no_step_is_trained_twice(
    asks: list[tuple[Config, int]], slots: int, policy: Fluid, wide: Any, seed: int
) -> None:
    chance = random.Random(seed)
    world = World(slots, delayed=True, policy=policy, proofs=AUDITED)
    if wide is not None:
        world.learns_wide = wide
    world.submit((FIRST, 2))
    world.run()
    requests = world.submit(*asks, reports=(3, 7))
    world.run(chance.randrange)
    assert_right(world, requests)
    plan = Plan()
    assert world.steps_trained == 2 + unique_steps([(plan.place(c, s)[0], s) for c, s in asks])
    assert {outcome for _, outcome in outcomes(world)} <= {"differs" if wide else "exact"}


@given(
    st.lists(studies, min_size=1, max_size=2),
    st.integers(2, 4),
    wide_policies,
    wrong,
    st.sampled_from([None, None, 3, 5]),
    seeds,
)
def test_kills_withdrawals_halts_and_resumes_change_no_result_and_each_width_is_decided_once(
    groups: list[list[tuple[Config, int]]],
    slots: int,
    policy: Fluid,
    wide: Any,
    budget: int | None,
    seed: int,
) -> None:
    chance = random.Random(seed)
    worlds: list[World] = []
    plan, disk = Plan(), {}
    for _ in range(2):
        world = World(slots, plan, budget, delayed=chance.random() < 0.7, policy=policy, proofs=AUDITED)
        worlds.append(world)
        world.disk = disk
        if wide is not None:
            world.learns_wide = wide
        world.out_of_step = lambda lease, step: chance.random() < 0.01
        world.submit((FIRST, 2))
        world.run()
        requests: list[Any] = []
        withdrawn: set[int] = set()
        open_groups = list(groups)
        for _ in range(250):
            if open_groups and chance.random() < 0.1:
                requests += world.submit(*open_groups.pop(), reports=(2, 5))
            if chance.random() < 0.02:
                world.kill(chance.randrange(len(world.workers)))
            if requests and chance.random() < 0.02:
                request = chance.choice(requests)
                if request.id not in answered(world):
                    withdrawn.add(request.id)
                world.feed(RequestWithdrawn(request.id))
            if moves := world.moves():
                chance.choice(moves)()
        if world is worlds[0] and len(worlds) == 1 and chance.random() < 0.5:
            world.feed(Halted())
            world.run(chance.randrange)
            failed = {answer.request for answer in world.answers if answer.error}
            done = {answer.request for answer in world.answers if answer.final}
            assert_right(world, [each for each in requests if each.id in done], but=withdrawn | failed)
        else:
            while open_groups:
                requests += world.submit(*open_groups.pop())
            world.run(chance.randrange)
            failed = {answer.request for answer in world.answers if answer.error}
            assert failed == {answer.request for answer in world.answers if answer.suspended}
            assert_right(world, requests, but=withdrawn | failed)
            assert not world.engine.proofs.is_open
        plan, disk = Plan.replay(world.facts) if world is worlds[0] else plan, world.disk
    decided = [outcome for world in worlds for outcome in outcomes(world)]
    assert len(set(decided)) == len(decided)
    assert all(outcome != "differs" for _, outcome in decided[:-1])
