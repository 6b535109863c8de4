"""Slots of several kinds: a config is trained where it has what it needs, and nowhere else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.world import World, metrics_of, trained_alone
from hippotune.protocol.commands import RunLease
from hippotune.protocol.proof import ProofPolicy
from hippotune.scheduling import Fluid
from hippotune.sequences import Config, MultiStep

SMALL = [Config({"lr": 0.1}), Config({"lr": MultiStep(0.1, [4], 0.1)}), Config({"lr": 0.2})]
LARGE = [Config({"lr": 0.6}), Config({"lr": MultiStep(0.6, [3], 0.1)}), Config({"lr": 0.7})]
STEPS = 6
BOTH, SECOND = frozenset({0, 1}), frozenset({1})


def suitable(config: Config) -> frozenset[int]:
    return BOTH if float(config.values(0)["lr"]) < 0.5 else SECOND


@given(st.data(), st.sampled_from([None, Fluid(max_width=2)]), st.booleans())
def test_every_lease_is_on_slots_that_suit_it_and_every_result_is_right(
    data: st.DataObject, policy: Fluid | None, proved: bool
) -> None:
    proofs = ProofPolicy("Trainer", audit=0.5) if proved else None
    kinds = {0: 0, 1: 1, 2: 1}
    world = World(slots=3, policy=policy, proofs=proofs, suitable=suitable, kinds=kinds)
    configs = data.draw(st.permutations(SMALL + LARGE))
    requests = world.submit(*((config, STEPS) for config in configs))
    world.run(lambda count: data.draw(st.integers(0, count - 1)))
    answers = {answer.request: answer.metrics for answer in world.answers}
    assert answers == {
        request.id: metrics_of(trained_alone(config, STEPS))
        for request, config in zip(requests, configs, strict=True)
    }
    for command in world.commands:
        if isinstance(command, RunLease):
            for worker in command.workers:
                assert kinds[worker] in suitable(command.config)


def test_demand_is_for_the_most_modest_kind_that_suits() -> None:
    world = World(slots=1, suitable=suitable, kinds={0: 0})
    world.submit(*((config, STEPS) for config in (*SMALL, LARGE[0])))
    assert world.engine.demand(9).slots == {0: 2, 1: 1}
    world.submit((LARGE[2], STEPS))
    assert world.engine.demand(9).slots == {0: 2, 1: 2}
    assert world.engine.demand(3).slots == {0: 2, 1: 1}
