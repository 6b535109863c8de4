"""Widths at work: who gets several slots or a part of one, and that no result depends on it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.test_core import POOL, answered, config, leases, studies
from engine.world import Worker, World, metrics_of, trained_alone
from hippotune import Fluid
from hippotune.engine.width_allocator import Fits
from hippotune.plan.plan import Plan, unique_steps
from hippotune.protocol.commands import UpdateLease
from hippotune.protocol.events import ConfigsForeseen, Halted, RequestWithdrawn, WorkerJoined, WorkerLost
from hippotune.sequences import Config, MultiStep

HALF = Fraction(1, 2)
LONG, SHORT = config(0.1), config(0.5)
LONG_DROP = config(MultiStep(0.1, [20], 0.1))


def assert_right(world: World, requests: list[Any], but: set[int] | frozenset[int] = frozenset()) -> None:
    answers = answered(world)
    for request in requests:
        if request.id not in but:
            assert answers[request.id] == metrics_of(trained_alone(request.config, request.step))


def move_until(world: World, what: Any) -> None:
    """Let workers move in turns until something is so."""
    while not what():
        moves = world.moves()
        assert moves, "nothing moves any more"
        for move in moves:
            move()


def in_turns(world: World) -> None:
    """Let all workers be equally quick, to the end."""
    move_until(world, lambda: not world.moves())


# Several slots.


def test_a_chain_that_everything_waits_for_gets_all_slots_that_it_can_have() -> None:
    world = World(slots=4, policy=Fluid(max_width=3))
    requests = world.submit((LONG, 60))
    (lease,) = leases(world)
    assert lease.width == 3
    assert lease.workers == (0, 1, 2)
    world.run()
    assert_right(world, requests)
    assert world.steps_trained == 60


def test_as_many_chains_as_slots_get_one_each() -> None:
    world = World(slots=4, policy=Fluid())
    world.submit(*[(config(float(rate)), 20) for rate in range(1, 5)])
    assert [lease.width for lease in leases(world)] == [1] * 4


def test_a_long_chain_gets_more_than_short_ones() -> None:
    world = World(slots=5, policy=Fluid())
    world.submit((LONG, 90), (SHORT, 20), (config(0.7), 20))
    assert {lease.config: lease.width for lease in leases(world)} == {LONG: 3, SHORT: 1, config(0.7): 1}


def test_without_a_policy_or_where_nothing_may_be_split_every_lease_has_one_slot() -> None:
    for world in (World(slots=4), World(slots=4, policy=Fluid(), fits=None)):
        requests = world.submit((LONG, 30), (SHORT, 10))
        world.run()
        assert {lease.width for lease in leases(world)} == {1}
        assert_right(world, requests)


def test_only_widths_are_used_that_suit_every_value_on_the_way() -> None:
    def divides(values: Mapping[str, Any], width: int) -> bool:
        return values["bs"] % width == 0

    world = World(slots=5, policy=Fluid(), fits=divides)
    world.submit((Config({"lr": 0.1, "bs": 128}), 40))
    assert leases(world)[-1].width == 4
    world = World(slots=5, policy=Fluid(), fits=divides)
    world.submit((Config({"lr": 0.1, "bs": MultiStep(128, [30], 0.25)}), 40))
    assert leases(world)[-1].width == 4
    world = World(slots=5, policy=Fluid(), fits=divides)
    world.submit((Config({"lr": 0.1, "bs": MultiStep(6, [30], 1.5)}), 40))  # 6, then 9
    assert leases(world)[-1].width == 3


def test_metrics_at_a_kept_state_need_one_slot() -> None:
    world = World(slots=4, policy=Fluid())
    world.submit((LONG, 40), (LONG_DROP, 30))
    world.run()
    world.submit((LONG, 20))
    assert (leases(world)[-1].start, leases(world)[-1].end, leases(world)[-1].width) == (20, 20, 1)
    world.run()


def test_a_width_that_turns_out_to_be_slower_is_not_used_again() -> None:
    world = World(slots=2, policy=Fluid())
    world.slower_together = 3.0
    world.submit((LONG, 30), (SHORT, 30))
    in_turns(world)
    assert {lease.width for lease in leases(world)} == {1}
    world.submit((LONG, 400))
    assert leases(world)[-1].width == 2  # to find out
    in_turns(world)
    assert leases(world)[-1].width == 1
    assert world.engine.profile.speed(Fraction(2)) < 1
    world.submit((config(2.0), 60))
    assert leases(world)[-1].width == 1


# Another width on the way.


def test_a_lease_is_stopped_to_go_on_wider_and_nothing_is_lost_or_trained_twice() -> None:
    world = World(slots=2, policy=Fluid())
    requests = world.submit((LONG, 100), (SHORT, 10), reports=(30, 60))
    assert [lease.width for lease in leases(world)] == [1, 1]
    move_until(world, lambda: len(leases(world)) > 2)
    narrow, _, wide = leases(world)
    assert (wide.config, wide.width) == (LONG, 2)
    assert 10 <= wide.start < 20
    world.run()
    assert world.steps_trained == 110
    assert_right(world, requests)
    story = [lease for lease in leases(world) if lease.config == LONG]
    assert [lease.start for lease in story] == [0, *[span.last for span in spans_of(world, LONG)][:-1]]
    assert narrow.lease != wide.lease


def spans_of(world: World, trained: Config) -> list[Any]:
    node = world.engine.plan.find(trained, 1)
    return [span for span in world.spans() if span.node == node.id and span.kind == "train"]


def test_a_lease_stops_at_the_end_of_its_stage_if_that_is_near() -> None:
    world = World(slots=2, policy=Fluid())
    requests = world.submit((LONG, 100), (config(MultiStep(0.1, [13], 0.1)), 15), (SHORT, 11))
    in_turns(world)
    wide = next(lease for lease in leases(world) if lease.width == 2 and lease.config == LONG)
    assert wide.start == 13  # where the other branches off and a checkpoint is due anyway
    assert_right(world, requests)


def test_what_stops_to_go_on_wider_is_what_goes_on_wider() -> None:
    world = World(slots=5, policy=Fluid())
    equal = [config(float(rate)) for rate in range(1, 5)]
    world.submit(*[(each, 100) for each in equal], (SHORT, 10))
    move_until(world, lambda: len(leases(world)) > 5)
    assert leases(world)[5].width == 2  # though the others have as far to go
    in_turns(world)
    assert all(lease.width > 1 for lease in leases(world)[5:])


def test_a_short_rest_is_not_worth_a_restart() -> None:
    world = World(slots=2, policy=Fluid())
    world.submit((LONG, 12), (SHORT, 10))
    world.run()
    assert [lease.width for lease in leases(world)] == [1, 1]


def test_a_static_policy_leaves_what_runs_alone() -> None:
    world = World(slots=2, policy=Fluid(dynamic=False))
    requests = world.submit((LONG, 100), (SHORT, 10))
    world.run()
    assert [lease.width for lease in leases(world)] == [1, 1]
    assert not [command for command in world.commands if isinstance(command, UpdateLease)]
    assert_right(world, requests)


def test_a_wide_lease_makes_room_where_others_branch_off() -> None:
    world = World(slots=3, policy=Fluid())
    many = [config(MultiStep(0.1, [20], factor)) for factor in (0.1, 0.2, 0.3)]
    requests = world.submit(*[(each, 60) for each in many])
    (first,) = leases(world)
    assert (first.width, first.end) == (3, 20)
    in_turns(world)
    # The first of them starts from the state in memory, before it is saved; slots are left for the others.
    assert [(lease.start, lease.width) for lease in leases(world)][1:4] == [(20, 1)] * 3
    assert world.steps_trained == 20 + 3 * 40
    assert_right(world, requests)


def test_a_group_that_arrives_is_not_kept_waiting_for_long() -> None:
    world = World(slots=2, policy=Fluid())
    world.submit((LONG, 400))
    move_until(world, lambda: world.steps_trained > 5)
    (wide,) = leases(world)
    assert wide.width == 2
    world.submit((SHORT, 400))
    move_until(world, lambda: len(leases(world)) > 1)
    assert world.steps_trained <= 41  # a tenth of the path, and not all of it
    move_until(world, lambda: len(leases(world)) > 2)
    assert {lease.config: lease.width for lease in leases(world)[1:3]} == {LONG: 1, SHORT: 1}


def test_slots_that_a_lease_stops_for_are_kept_free_for_it() -> None:
    world = World(slots=3, policy=Fluid(), delayed=True)
    world.submit((LONG, 200), (SHORT, 10), (config(0.7), 10))
    move_until(world, lambda: any(lease.claim for lease in world.engine.leases.values()))
    claimed = next(lease for lease in world.engine.leases.values() if lease.claim)
    assert claimed.claim > claimed.width
    world.submit((config(0.9), 3))
    claims = sum(int(each.claim - each.width) for each in world.engine.leases.values() if each.claim)
    assert world.engine.workers.free >= claims
    world.run()
    assert len(answered(world)) == 4


# Parts of a slot.


def test_many_short_ones_share_slots() -> None:
    world = World(slots=2, policy=Fluid(packing=2))
    requests = world.submit(*[(config(float(rate)), 10) for rate in range(1, 7)])
    assert [lease.width for lease in leases(world)] == [HALF] * 4
    assert sorted(lease.worker % 2 for lease in leases(world)) == [0, 0, 1, 1]
    world.run()
    assert_right(world, requests)
    assert world.steps_trained == 60


def test_what_runs_out_of_memory_beside_others_is_tried_alone_and_fails_nobody() -> None:
    world = World(slots=1, policy=Fluid(packing=2))
    world.lacks_memory = lambda lease, step: lease.width < 1 and lease.config == LONG and step == 4
    requests = world.submit((LONG, 9), (SHORT, 9))
    assert [lease.width for lease in leases(world)] == [HALF, HALF]
    world.run()
    again = [lease for lease in leases(world) if lease.config == LONG]
    assert [lease.width for lease in again] == [HALF, 1]
    assert_right(world, requests)


def test_what_runs_out_of_memory_alone_fails() -> None:
    world = World(slots=1, policy=Fluid(packing=2))
    world.lacks_memory = lambda lease, step: lease.config == LONG and step == 4
    _, other = world.submit((LONG, 9), (SHORT, 9))
    world.run()
    assert [answer.error for answer in world.answers if answer.error] == ["Boom"]
    assert list(answered(world)) == [other.id]


def test_what_leads_along_a_path_that_lacked_memory_is_kept_apart_too() -> None:
    world = World(slots=1, policy=Fluid(packing=2))
    world.lacks_memory = lambda lease, step: lease.width < 1 and step == 4
    world.submit((LONG, 9), (SHORT, 9))
    world.run()
    below = config(MultiStep(0.1, [9], 0.1))
    world.submit((below, 20), (SHORT, 20), (config(0.7), 3))
    widths = {lease.config: lease.width for lease in leases(world)[-3:]}
    world.run()
    assert widths.get(below, 1) == 1
    assert {lease.width for lease in leases(world) if lease.config in (below, SHORT) and lease.start} == {1}


def test_a_packed_worker_that_dies_is_replaced_and_its_work_done_alone() -> None:
    world = World(slots=1, policy=Fluid(packing=2))
    requests = world.submit((LONG, 9), (SHORT, 9))
    packed = next(lease for lease in leases(world) if lease.config == LONG)
    move_until(world, lambda: world.steps_trained > 6)
    world.kill(packed.worker)
    world.run()
    assert [lease.width for lease in leases(world) if lease.config == LONG] == [HALF, 1]
    assert_right(world, requests)


# Losses.


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_losing_one_worker_of_a_wide_lease_costs_the_steps_since_the_last_checkpoint(victim: int) -> None:
    world = World(slots=3, policy=Fluid())
    requests = world.submit((LONG, 60), (LONG_DROP, 30))
    assert leases(world)[0].peers == (1, 2)
    move_until(world, lambda: world.steps_trained == 15)
    world.kill(victim)
    assert leases(world)[-1].start == 0
    move_until(world, lambda: world.steps_trained >= 15 + 24)
    world.kill(victim)
    assert leases(world)[-1].start >= 20  # where the other branches off
    in_turns(world)
    assert_right(world, requests)
    assert world.steps_trained <= 70 + 15 + 10


def test_the_loss_of_a_peer_ends_the_lease_before_its_leader_is_lost_too() -> None:
    world = World(slots=2, policy=Fluid())
    (request,) = world.submit((LONG, 30))
    move_until(world, lambda: world.steps_trained > 3)
    world.workers[1] = Worker(1)
    world.together.clear()
    world.feed(WorkerLost(1, "killed"))
    assert world.engine.leases == {}
    assert not world.engine.workers.idle  # the leader is busy with what counts for nothing, until it is lost
    world.feed(WorkerJoined(1, 1))
    world.ring()
    assert leases(world)[-1].worker == 1  # which does not wait for it
    world.workers[0] = Worker(0)
    world.feed(WorkerLost(0, "ended with it"))
    world.feed(WorkerJoined(0, 0))
    world.run()
    assert_right(world, [request])


def test_halting_stops_wide_leases_too() -> None:
    world = World(slots=2, policy=Fluid())
    world.submit((LONG, 50))
    move_until(world, lambda: world.steps_trained > 3)
    world.feed(Halted())
    world.run()
    assert world.steps_trained == 4
    assert 4 in world.engine.plan.nodes[0].checkpoints


def test_worker_time_counts_all_slots_of_a_lease_once() -> None:
    world = World(slots=2, policy=Fluid())
    world.submit((LONG, 30))
    world.run()
    spans = world.spans()
    assert {span.kind for span in spans} == {"train", "help"}
    helped = [(span.lease, span.first, span.last) for span in spans if span.kind == "help"]
    assert helped == [(span.lease, span.first, span.last) for span in spans if span.width == 2]
    seconds = sum((span.ended - span.began) * span.width for span in spans)
    assert world.engine.worker_seconds == pytest.approx(seconds)


# Any interleaving.

policies = st.builds(
    Fluid,
    packing=st.integers(1, 3),
    max_width=st.none() | st.integers(1, 3),
    dynamic=st.booleans(),
    scaling=st.none() | st.just({2: 1.2, 3: 1.1}),
)
fits = st.sampled_from([None, lambda values, width: True, lambda values, width: width != 3])
seeds = st.integers(0, 2**32)


@given(studies, st.integers(1, 4), policies, fits, seeds)
def test_at_any_width_every_unique_step_is_trained_once(
    asks: list[tuple[Config, int]], slots: int, policy: Fluid, fits: Fits | None, seed: int
) -> None:
    chance = random.Random(seed)
    world = World(slots, delayed=True, policy=policy, fits=fits)
    requests = world.submit(*asks, reports=(3, 7))
    world.run(chance.randrange)
    assert_right(world, requests)
    plan = Plan()
    assert world.steps_trained == unique_steps([(plan.place(c, s)[0], s) for c, s in asks])


@given(
    st.lists(studies, min_size=1, max_size=4),
    st.integers(1, 4),
    policies,
    fits,
    st.sampled_from([None, None, 3, 5]),
    seeds,
)
def test_widths_deaths_withdrawals_and_late_groups_change_no_result(
    groups: list[list[tuple[Config, int]]],
    slots: int,
    policy: Fluid,
    fits: Fits | None,
    budget: int | None,
    seed: int,
) -> None:
    chance = random.Random(seed)
    world = World(slots, budget=budget, delayed=chance.random() < 0.7, policy=policy, fits=fits)
    world.lacks_memory = lambda lease, step: lease.width < 1 and chance.random() < 0.02
    if chance.random() < 0.3:
        world.feed(ConfigsForeseen(tuple(chance.sample(POOL, 10)), 14))
    open_groups = list(groups)
    requests: list[Any] = []
    withdrawn: set[int] = set()
    for _ in range(300):
        if open_groups and chance.random() < 0.1:
            study = chance.choice(["one", "two"])
            requests += world.submit(*open_groups.pop(), reports=(2, 5), study=study)
        if chance.random() < 0.02:
            world.kill(chance.randrange(len(world.workers)))
        if requests and chance.random() < 0.03:
            request = chance.choice(requests)
            if request.id not in answered(world):
                withdrawn.add(request.id)
            world.feed(RequestWithdrawn(request.id))
        if moves := world.moves():
            chance.choice(moves)()
    while open_groups:
        requests += world.submit(*open_groups.pop())
    world.run(chance.randrange)
    failed = {answer.request for answer in world.answers if answer.error}  # lost four times in a row
    assert failed == {answer.request for answer in world.answers if answer.suspended}
    assert_right(world, requests, but=withdrawn | failed)
