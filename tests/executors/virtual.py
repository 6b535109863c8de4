"""The real engine in virtual time, in one thread, with its invariants checked after every event."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from hippotune.engine.core import Engine
from hippotune.engine.options import EngineOptions
from hippotune.engine.validation import validate
from hippotune.executors.base import Job
from hippotune.executors.simulated.executor import Simulated
from hippotune.plan.facts import SpanRecorded
from hippotune.plan.plan import Plan
from hippotune.protocol.commands import Command
from hippotune.protocol.events import Event, MetricsRequired
from hippotune.protocol.proof import ProofPolicy
from hippotune.scheduling.policy import WidthPolicy
from hippotune.sequences.config import Config
from hippotune.shell.loop import Loop
from hippotune.shell.writer import ImmediateWriter
from hippotune.store.memory import MemoryStore
from hippotune.study.tuning import Tuning
from hippotune.tuners.base import Result, TrialGroup, Trials, Tuner

SECONDS = 600.0  # of real time: nothing takes so long unless it is stuck


class Watched(Engine):
    """An engine that notes what it hears and when, and checks itself."""

    def __init__(
        self,
        plan: Plan,
        policy: WidthPolicy | None = None,
        proofs: ProofPolicy | None = None,
        every: float | None = None,
    ) -> None:
        options = EngineOptions(policy, proofs, checkpoint_every=every)
        super().__init__(plan, options, fits=lambda values, width: True)
        self.heard: list[tuple[float, Event]] = []

    def handle(self, event: Event, now: float) -> list[Command]:
        self.heard.append((now, event))
        commands = super().handle(event, now)
        validate(self)
        return commands


@dataclass
class Outcome:
    """What came of a tuning in virtual time."""

    results: list[Result]
    trained: int
    worker_seconds: float
    seconds: float
    heard: list[tuple[float, Event]]
    spans: list[SpanRecorded] = field(default_factory=list)

    def times(self, kind: type[Event]) -> list[float]:
        return [now for now, event in self.heard if isinstance(event, kind)]


class Asks(Tuner):
    """Asks for configs, each up to its step, and waits for all."""

    metric = "score"
    mode = "max"

    def __init__(self, *asks: tuple[Config, int], every: int | None = None) -> None:
        self.group = TrialGroup(asks, every)

    async def run(self, trials: Trials) -> None:
        trials.submit(self.group)
        while trials.open:
            await trials.next()


def tune(
    executor: Simulated,
    *tuners: Tuner,
    share: bool = True,
    width: WidthPolicy | None = None,
    proofs: ProofPolicy | None = None,
    every: float | None = None,
) -> Outcome:
    """Run tuners side by side on one plan; stages are saved on their way `every` so many seconds."""
    return asyncio.run(asyncio.wait_for(_tune(executor, tuners, share, width, proofs, every), SECONDS))


async def _tune(
    executor: Simulated,
    tuners: Sequence[Tuner],
    share: bool,
    width: WidthPolicy | None,
    proofs: ProofPolicy | None,
    every: float | None,
) -> Outcome:
    store = MemoryStore()
    engine = Watched(Plan(), width, proofs, every)
    loop = Loop(engine, executor, ImmediateWriter(store))
    packing = 1 if width is None else width.packing
    await executor.start(Job(object, packing=packing), loop.emit)
    loop.handle(MetricsRequired(frozenset(tuner.metric for tuner in tuners)))
    tunings = [Tuning(loop, f"study {place}", share) for place in range(len(tuners))]
    await asyncio.gather(*[tuning.run(tuner) for tuning, tuner in zip(tunings, tuners, strict=True)])
    seconds = executor.now()
    await loop.wait_idle()
    await executor.close()
    results = [result for tuning in tunings for result in tuning.results]
    return Outcome(results, engine.trained, engine.worker_seconds, seconds, engine.heard, list(store.spans()))
