"""What training logs becomes facts by node: along every trial's way, whatever happens to workers."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from engine.world import World, logged_at, trained_alone
from hippotune.history.logged import Logged, LoggedNumbers
from hippotune.plan.facts import CheckpointKept, MetricsRecorded, NumbersRecorded
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import Note, Record, RunLease
from hippotune.protocol.events import Halted, WorkerNoted
from hippotune.protocol.proof import ProofPolicy
from hippotune.sequences import Constant, Exponential, MultiStep, Piecewise
from hippotune.sequences.config import Config
from hippotune.store.memory import MemoryStore

CONFIGS = [
    Config({"lr": lr})
    for lr in (
        Constant(0.1),
        MultiStep(0.1, [4], 0.1),
        MultiStep(0.1, [4, 7], 0.1),
        Piecewise([0.1, 0.01], [6]),
        Exponential(0.1, 0.9),
    )
]
SHARES_NOTHING = Config({"lr": Constant(0.2)})
EXACT = ProofPolicy("Trainer")
asks = st.lists(st.tuples(st.sampled_from(CONFIGS), st.integers(1, 12)), min_size=1, max_size=6)
asks_apart = st.lists(
    st.tuples(st.sampled_from([CONFIGS[0], CONFIGS[1], SHARES_NOTHING]), st.integers(1, 12)),
    min_size=2,
    max_size=4,
)


def logged_alone(config: Config, step: int) -> Logged:
    found: Logged = {}
    for at in range(1, step + 1):
        for name, number in logged_at(trained_alone(config, at)).items():
            found.setdefault(name, []).append((at, number))
    return found


@given(groups=st.lists(asks, min_size=1, max_size=3), chance=st.randoms(use_true_random=False))
def test_what_is_read_along_a_trial_is_what_it_logs_alone(
    groups: list[list[tuple[Config, int]]], chance: random.Random
) -> None:
    world = World(slots=2, delayed=True)
    world.tick = chance.choice([0.01, 0.3, 1.0])
    for place, group in enumerate(groups):
        world.submit(*group)
        for _ in range(chance.randrange(40)):
            if moves := world.moves():
                chance.choice(moves)()
        if place < 2 and chance.random() < 0.5:  # three losses in a row would fail the trial
            world.kill(chance.randrange(2))
    world.run(chance.randrange)
    store = MemoryStore()
    store.write(world.facts)
    numbers, plan = LoggedNumbers(store), world.engine.plan
    for config, step in [ask for group in groups for ask in group]:
        assert numbers.along(plan.find(config, step), step) == logged_alone(config, step)
    assert Plan.replay(world.facts).order == plan.order


def test_numbers_are_facts_no_later_than_what_makes_training_their_steps_again_needless() -> None:
    world = World(slots=1)
    world.submit((CONFIGS[0], 9), (CONFIGS[1], 9))
    world.run()
    recorded: dict[int, int] = {}
    for command in world.commands:
        if not isinstance(command, Record):
            continue
        for fact in command.facts:
            if isinstance(fact, NumbersRecorded):
                recorded[fact.node] = fact.steps[-1]
        for fact in command.facts:
            if isinstance(fact, MetricsRecorded | CheckpointKept) and logged_at(((),) * fact.position.step):
                assert recorded[fact.position.node] >= fact.position.step


def test_numbers_of_quick_steps_are_recorded_many_at_a_time() -> None:
    world = World(slots=1)
    world.submit((CONFIGS[0], 200))
    world.tick = 1e-4
    world.run()
    recorded = [fact for fact in world.facts if isinstance(fact, NumbersRecorded)]
    assert len(recorded) <= 3
    assert sum(len(fact.steps) for fact in recorded) == sum(
        1 for step in range(1, 201) if logged_at(trained_alone(CONFIGS[0], step))
    )


def test_what_a_worker_notes_is_passed_on_and_is_no_fact() -> None:
    world = World(slots=1)
    facts = len(world.facts)
    world.feed(WorkerNoted(0, "the data is large"))
    assert world.commands[-1] == Note("the data is large")
    assert len(world.facts) == facts


@given(group=asks_apart, moves=st.integers(0, 60), chance=st.randoms(use_true_random=False))
def test_no_number_is_lost_where_a_run_that_is_not_proved_yet_stops_and_is_taken_up(
    group: list[tuple[Config, int]], moves: int, chance: random.Random
) -> None:
    world = World(slots=2, delayed=True, proofs=EXACT)
    world.submit(*group)
    for _ in range(moves):
        if possible := world.moves():
            chance.choice(possible)()
    world.feed(Halted())
    world.run(chance.randrange)
    resumed = World(2, Plan.replay(world.facts), delayed=True, proofs=EXACT)
    resumed.disk = world.disk
    resumed.submit(*group)
    resumed.run(chance.randrange)
    store = MemoryStore()
    store.write([*world.facts, *resumed.facts])
    for config, step in group:
        assert LoggedNumbers(store).along(resumed.engine.plan.find(config, step), step) == logged_alone(
            config, step
        )


def test_numbers_before_a_checkpoint_that_a_proof_has_saved_are_recorded() -> None:
    first = World(slots=1)
    first.submit((CONFIGS[0], 9))
    first.run()
    resumed = World(1, Plan.replay(first.facts), proofs=EXACT)
    resumed.disk = first.disk
    resumed.submit((SHARES_NOTHING, 9))
    resumed.run()
    given = [command for command in resumed.commands if isinstance(command, RunLease)]
    assert [lease.saves for lease in given if lease.proof and not lease.start][:1] == [{1}]
    store = MemoryStore()
    store.write([*first.facts, *resumed.facts])
    for config in (CONFIGS[0], SHARES_NOTHING):
        assert LoggedNumbers(store).along(resumed.engine.plan.find(config, 9), 9) == logged_alone(config, 9)
