"""Tuners that are run again after a kill hear what they heard, in the same order, with the same trials open.

The engine runs in virtual time. In every life other trials are fast, other results come first, and commits
lag behind by other amounts; a life ends at a random commit, and only what was committed is left.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import optuna
import pytest

from executors.virtual import Watched
from hippotune.executors.base import Job
from hippotune.executors.simulated.executor import Simulated
from hippotune.plan.facts import Fact
from hippotune.plan.plan import Plan
from hippotune.protocol.events import MetricsRequired
from hippotune.sequences import Config, MultiStep
from hippotune.shell.loop import Loop
from hippotune.spaces import Grid, LogUniform, Space
from hippotune.study.tuning import Tuning
from hippotune.tuners import (
    ASHA,
    BOHB,
    PASHA,
    PBT,
    Hyperband,
    HyperSched,
    Lazy,
    MedianStopping,
    OptunaSearch,
    SuccessiveHalving,
    Tuner,
)
from hippotune.tuners.base import Result, Trial, TrialGroup

# Schedules that begin alike, so that several trials wait for one result.
SHARED = Grid({"lr": [MultiStep(lr, [at], 0.5) for lr in (0.1, 0.2) for at in (1, 2, 4, 8)], "bs": [32, 64]})
DRAWN = Space({"lr": LogUniform(1e-3, 1.0), "bs": [32, 64, 128]})
SAMPLER = optuna.samplers.TPESampler(seed=1, n_startup_trials=4, constant_liar=True)
TUNERS: dict[str, Callable[[], Tuner]] = {
    "asha": lambda: ASHA(SHARED, "score", "max", 1, 9, 3),
    "asha with a sampler": lambda: ASHA(DRAWN, "score", "max", 1, 9, 3, trials=12, sampler=SAMPLER),
    "pasha": lambda: PASHA(SHARED, "score", "max", 1, 9, 3),
    "median stopping": lambda: MedianStopping(SHARED, "score", "max", 9, startup_trials=2),
    "hypersched": lambda: HyperSched(SHARED, "score", "max", 1, 9, 3),
    "pbt": lambda: PBT(DRAWN, "score", "max", 3, 10, population=6),
    "hyperband with a sampler": lambda: Hyperband(DRAWN, "score", "max", 1, 9, 3, sampler=SAMPLER),
    "tpe": lambda: OptunaSearch(DRAWN, "score", "max", 9, trials=16, sampler=SAMPLER),
    "tpe with prices and a pruner": lambda: OptunaSearch(
        DRAWN, "score", "max", 9, trials=16, cost_aware=True, every=3, pruner=optuna.pruners.MedianPruner()
    ),
    "bohb": lambda: BOHB(DRAWN, "score", "max", 1, 9, 3),
    "lazy": lambda: Lazy(DRAWN, "score", "max", 9, steps=90),
    "lazy, of a grid": lambda: Lazy(SHARED, "score", "max", 9, steps=60),
    "successive halving": lambda: SuccessiveHalving(SHARED, "score", "max", 1, 9, 3),
}


def measured(config: Config, step: int) -> dict[str, float]:
    """Return a score, or fail: always the same way for the same values so far."""
    chance = random.Random(repr([config.values(at) for at in range(step)]))
    if chance.random() < 0.1:
        raise ValueError("this trial fails here")
    return {"score": round(chance.random(), 1)}


class LaggingWriter:
    """Commits now and then, all that it was handed; not any more when it is killed."""

    def __init__(self, facts: list[Fact], chance: random.Random, commits: int) -> None:
        self._facts = facts
        self._chance = chance
        self._left = commits
        self._queue: list[tuple[Sequence[Fact], Callable[[BaseException | None], None]]] = []
        self.published = None
        self.killed = asyncio.get_running_loop().create_future()

    def submit(self, facts: Sequence[Fact], then: Callable[[BaseException | None], None]) -> None:
        self._queue.append((facts, then))
        if self._chance.random() < 0.4:
            self._commit()
        else:
            asyncio.get_running_loop().call_soon(self._commit)

    def _commit(self) -> None:
        if self._queue and not self.killed.done():
            if not self._left:
                self.killed.set_result(None)
                return
            self._left -= 1
            queue, self._queue = self._queue, []
            self._facts.extend(fact for facts, _ in queue for fact in facts)
            for _, then in queue:
                then(None)


class Noted(Tuning):
    """Notes what the tuner asks for and hears, and what is open then."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop, "study")
        self.notes: list[Any] = []

    def submit(self, group: TrialGroup) -> list[Trial]:
        asked = super().submit(group)
        steps = [step for _, step in group.asks]
        self.notes.append(("asked", [(trial.number, trial.config) for trial in asked], steps))
        return asked

    async def next(self) -> Result:
        result = await super().next()
        told = (result.step, repr(result.metrics), result.error, result.final)
        self.notes.append(("heard", result.trial.number, told, self.open, self.under_way))
        return result

    async def all(self, trials: Iterable[Trial]) -> list[Result]:
        results = await super().all(trials)
        self.notes.append(("heard", [(each.trial.number, each.step) for each in results]))
        return results


async def life(facts: list[Fact], tuner: Tuner, seed: int, commits: int) -> tuple[list[Any], bool]:
    """Tune on what was committed; return what was noted, and whether it ended before the last commit."""
    chance = random.Random(seed)
    executor = Simulated(
        2,
        seconds_per_step=lambda values, width: random.Random(f"{seed} {values}").choice([0.1, 1.0, 3.0]),
        evaluate=0.1,
        metrics=measured,
    )
    writer = LaggingWriter(facts, chance, commits)
    loop = Loop(Watched(Plan.replay(facts)), executor, writer)
    await executor.start(Job(object), loop.emit)
    loop.handle(MetricsRequired(frozenset({tuner.metric})))
    tuning = Noted(loop)
    running = asyncio.ensure_future(tuning.run(tuner))
    await asyncio.wait([running, writer.killed], return_when=asyncio.FIRST_COMPLETED)
    ended = running.done()
    if ended:
        await running
    else:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await executor.close()
    return tuning.notes, ended


@pytest.mark.parametrize("make", TUNERS.values(), ids=TUNERS)
@pytest.mark.parametrize("seed", range(3))
def test_a_tuner_that_is_run_again_hears_and_asks_what_it_did(make: Callable[[], Tuner], seed: int) -> None:
    chance = random.Random(seed)
    facts: list[Fact] = []
    notes: list[Any] = []
    lives, ended = 0, False
    while not ended:
        lives += 1
        more, ended = asyncio.run(life(facts, make(), 1000 * seed + lives, chance.randrange(8 * lives)))
        assert more[: len(notes)] == notes
        notes = more
    again, _ = asyncio.run(life(facts, make(), 0, 10**6))
    assert again == notes
    assert lives > 1
