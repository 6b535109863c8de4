"""Workers that are to go: they finish their step, save, and what they trained goes on elsewhere."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from engine.world import World, metrics_of, trained_alone
from hippotune.engine.worker_table import WorkerTable
from hippotune.protocol.commands import ReleaseWorker, RunLease
from hippotune.protocol.events import WorkerLeaving
from hippotune.protocol.proof import ProofPolicy
from hippotune.scheduling import Fluid
from hippotune.sequences import Config, MultiStep

CONFIGS = [
    Config({"lr": 0.1}),
    Config({"lr": MultiStep(0.1, [4], 0.1)}),
    Config({"lr": MultiStep(0.1, [7], 0.5)}),
    Config({"lr": 0.3}),
]
STEPS = 10
UNIQUE = STEPS + (STEPS - 4) + (STEPS - 7) + STEPS


@given(st.data(), st.booleans(), st.sampled_from([None, Fluid(max_width=2)]), st.booleans())
def test_no_step_is_trained_twice_and_every_result_is_right_whenever_workers_leave(
    data: st.DataObject, delayed: bool, policy: Fluid | None, proved: bool
) -> None:
    proofs = ProofPolicy("Trainer", audit=0.5) if proved else None
    world = World(slots=3, delayed=delayed, policy=policy, proofs=proofs)
    requests = world.submit(*((config, STEPS) for config in CONFIGS))
    leaves = data.draw(st.integers(0, 6))
    while moves := world.moves():
        if leaves and data.draw(st.integers(0, 9)) == 0:
            leaves -= 1
            world.feed(WorkerLeaving(data.draw(st.integers(0, 2))))
            continue
        moves[data.draw(st.integers(0, len(moves) - 1))]()
    answers = {answer.request: answer.metrics for answer in world.answers}
    assert answers == {
        request.id: metrics_of(trained_alone(config, STEPS))
        for request, config in zip(requests, CONFIGS, strict=True)
    }
    assert world.steps_trained == UNIQUE
    assert not world.engine.proofs.is_open


def test_one_that_is_idle_is_let_go_at_once_and_one_at_work_after_its_step() -> None:
    world = World(slots=2)
    world.submit((CONFIGS[0], STEPS))
    world.feed(WorkerLeaving(1))
    assert world.commands[-1] == ReleaseWorker(1)
    while world.steps_trained < 3:
        world.move(0)
    world.feed(WorkerLeaving(0))
    while 0 not in world.released:
        world.move(0)
    assert world.steps_trained == 3
    world.run()
    assert [command.start for command in world.commands if isinstance(command, RunLease)] == [0, 3]


def test_demand_is_what_runs_and_what_could_run_beside_it_as_wide_as_it_may_be() -> None:
    world = World(slots=1)
    assert world.engine.demand(8) == ({}, 1)
    world.submit((CONFIGS[0], STEPS), (CONFIGS[3], STEPS), (Config({"lr": 0.4}), STEPS))
    assert world.engine.demand(8) == ({0: 3}, 1)
    assert world.engine.demand(2) == ({0: 2}, 1)
    world.run()
    assert world.engine.demand(8) == ({}, 1)
    wide = World(slots=1, policy=Fluid(max_width=4))
    wide.submit((CONFIGS[0], STEPS))
    assert wide.engine.demand(8) == ({0: 4}, 4)


def test_one_trial_never_asks_for_more_than_one_slot() -> None:
    world = World(slots=1, proofs=ProofPolicy("Trainer"))
    world.submit((CONFIGS[1], STEPS))
    while moves := world.moves():
        assert world.engine.demand(8).slots.get(0, 0) <= 1
        moves[0]()
    assert world.steps_proved
    assert world.engine.demand(8) == ({}, 1)


def test_those_that_train_a_lease_together_are_near_each_other_where_possible() -> None:
    table = WorkerTable()
    for number, host in enumerate("abcab"):
        table.join(number, number, host=host)
    table.take(0, 7, Fraction(2))
    assert table.choose(None, near=0) == 3
    table.take(3, 7, Fraction(1))
    assert table.choose(None, near=0) == 1
