"""What training logs becomes facts by node: along every trial's way, whatever happens to workers."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from engine.world import World, logged_at, trained_alone
from hippotune.history.logged import Logged, LoggedNumbers
from hippotune.plan.facts import CheckpointKept, MetricsRecorded, NumbersRecorded
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import Note, Record
from hippotune.protocol.events import WorkerNoted
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
asks = st.lists(st.tuples(st.sampled_from(CONFIGS), st.integers(1, 12)), min_size=1, max_size=6)


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
