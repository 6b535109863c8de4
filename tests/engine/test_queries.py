"""Looking at an engine changes nothing that it decides."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from engine.test_core import intervals, proofs, seeds, studies
from engine.world import World
from hippotune.engine.core import Engine
from hippotune.engine.options import EngineOptions
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import Command, RunLease
from hippotune.protocol.events import Event, Paused, RequestWithdrawn, Resumed
from hippotune.protocol.proof import ProofPolicy
from hippotune.scheduling import Fluid
from hippotune.sequences.config import Config


def look(engine: Engine, now: float) -> None:
    """Ask what pages, pools and executors ask."""
    engine.demand(64)
    engine.served(now)
    engine.state.frontier.ready(2)
    for study in ("a", "b"):
        engine.state.frontier.total_time(study)
        engine.out_of(study)


class Watched(World):
    """A world whose engine is looked at after every event; `told` is what it was told, and when."""

    def feed(self, event: Event) -> None:
        self.told: list[tuple[Event, float]] = getattr(self, "told", [])
        self.told.append((event, self.now + self.tick))
        super().feed(event)
        look(self.engine, self.now)


def unwatched(world: Watched, engine: Engine) -> list[Command]:
    """Return what an engine commands that is told the same, and that nobody looks at."""
    return [command for event, now in world.told for command in engine.handle(event, now)]


@given(
    st.lists(studies, min_size=1, max_size=4),
    st.integers(1, 3),
    seeds,
    proofs,
    intervals,
    st.sampled_from([None, Fluid(max_width=2)]),
)
def test_an_engine_that_is_looked_at_commands_the_same(
    groups: list[list[tuple[Config, int]]],
    slots: int,
    seed: int,
    proved: ProofPolicy | None,
    every: float | None,
    policy: Fluid | None,
) -> None:
    chance = random.Random(seed)
    world = Watched(slots, policy=policy, proofs=proved, checkpoint_every=every)
    requests = []
    for group in groups:
        requests += world.submit(*group, reports=(2, 5), study=chance.choice("ab"))
        for _ in range(chance.randrange(40)):
            if chance.random() < 0.05:
                world.kill(chance.randrange(slots))
            if chance.random() < 0.1:
                world.feed(RequestWithdrawn(chance.choice(requests).id))
            if moves := world.moves():
                chance.choice(moves)()
    world.run(chance.randrange)
    fits = lambda values, width: True  # noqa: E731
    engine = Engine(Plan(), EngineOptions(policy, proved, checkpoint_every=every), fits)
    assert unwatched(world, engine) == world.commands


def test_what_was_withdrawn_counts_no_more_whether_or_not_somebody_looked() -> None:
    world = Watched(slots=2)
    world.feed(Paused())
    world.submit(*((Config({"lr": rate}), steps) for rate, steps in enumerate((3, 3, 2, 2, 2), 1)))
    for request in world.submit(*((Config({"lr": 100 + rate}), 2) for rate in range(40))):
        world.feed(RequestWithdrawn(request.id))
    world.feed(Resumed())
    assert unwatched(world, Engine(Plan())) == world.commands
    leases = [command.end for command in world.commands if isinstance(command, RunLease)]
    assert leases == [2, 3]  # all workers end together so
