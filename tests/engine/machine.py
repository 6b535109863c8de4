"""Several plans on the slots of one pool, in one time: the real engines, and no processes."""

from __future__ import annotations

from engine.world import World
from hippotune.protocol.events import OthersWait, OwnerSet, ServedElsewhere, WorkerLeaving
from hippotune.scheduling.pool import SlotPool
from hippotune.sequences import Config


class Machine:
    """Every worker that has a lease trains a step a second."""

    def __init__(self, slots: int, plans: int, checkpoint_every: float | None = None) -> None:
        self.slots = slots
        self.pool = SlotPool(slots)
        self.now = 0.0
        self.worlds: list[World] = []
        for plan in range(plans):
            self.pool.enter(plan)
            world = World(slots, checkpoint_every=checkpoint_every)
            world.tick = world.now = 0.0
            for number in range(slots):
                world.feed(WorkerLeaving(number))
            self.worlds.append(world)

    def ask(self, plan: int, study: str, owner: str, configs: int, steps: int, first: int = 0) -> None:
        """A study asks for configs that share nothing with others."""
        world = self.worlds[plan]
        world.now = self.now
        world.feed(OwnerSet(study, owner))
        asks = [(Config({"lr": at + 1, "study": study}), steps) for at in range(first, first + configs)]
        world.submit(*asks, study=study)
        self._share_out()

    def holds(self, plan: int) -> int:
        return len(self.pool.plans[plan].slots)

    def spent(self, *studies: str) -> float:
        return sum(world.engine.spent(study, self.now) for world in self.worlds for study in studies)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            for world in self.worlds:
                world.now = self.now
                while world.alarms and min(world.alarms) <= self.now:
                    world.ring()
                for number in range(self.slots):
                    self._work(world, number)
            self._share_out()

    def _work(self, world: World, number: int) -> None:
        trained = world.steps_trained
        while world.write(number):
            pass
        while world.steps_trained == trained and world.move(number):
            while world.write(number):
                pass

    def _share_out(self) -> None:
        for plan, world in enumerate(self.worlds):
            for slot in sorted(world.released & self.pool.plans[plan].slots):
                self.pool.release_slot(plan, slot)
                self.pool.freed(plan, slot)
        for plan, world in enumerate(self.worlds):
            self.pool.serve(plan, world.engine.served(self.now))
            self.pool.demand(plan, sum(world.engine.demand(self.slots).slots.values()))
        grants, limits, elsewhere = self.pool.decide(turn=0.0)
        for plan, users in elsewhere.items():
            self.worlds[plan].feed(ServedElsewhere(users))
        for plan, slot in grants:
            self.worlds[plan].come_back(slot)
        for plan, limit in limits.items():
            self.worlds[plan].feed(OthersWait(limit))
