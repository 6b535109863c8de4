"""What a tuning may look at while it runs: the clock, the workers, the counters, and where configs are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hippotune.engine.core import Engine, ProofWork
from hippotune.engine.deadlines import Limit
from hippotune.executors.base import Executor
from hippotune.plan.node import Node
from hippotune.sequences.config import Config
from hippotune.shell.pulse import Pulse, take_pulse


class Counters(NamedTuple):
    """What was counted since the plan was opened: a tuning's work is what was added meanwhile."""

    trained: int
    worker_seconds: float
    proof_work: ProofWork

    def minus(self, others: Counters) -> Counters:
        """Return what was counted beyond others."""
        proofs, theirs = self.proof_work, others.proof_work
        return Counters(
            self.trained - others.trained,
            self.worker_seconds - others.worker_seconds,
            ProofWork(
                proofs.steps - theirs.steps,
                proofs.seconds - theirs.seconds,
                proofs.startup_seconds - theirs.startup_seconds,
            ),
        )


class Pace(NamedTuple):
    """The seconds of a usual step and of starting from a checkpoint, and the most workers of one trial."""

    step: float | None
    startup: float
    widest: int


class Readings:
    """What an engine in this process shows. To be used on the engine's thread."""

    def __init__(self, engine: Engine, executor: Executor) -> None:
        self._engine = engine
        self._executor = executor

    def now(self) -> float:
        """Return the executor's time."""
        return self._executor.now()

    @property
    def workers(self) -> int:
        """How many workers there are meant to be."""
        return self._executor.workers

    @property
    def suitable(self) -> Callable[[Config], frozenset[int]] | None:
        """Which kinds of slots suit a config; None where all are alike."""
        return self._executor.suitable

    def find(self, config: Config, step: int, isolation_key: str) -> Node:
        """Return the node that a config is on after `step` steps; `LookupError` where it was never asked."""
        return self._engine.plan.find(config, step, isolation_key)

    def unshared(self, config: Config, step: int) -> int:
        """Return how many steps a new config would have to be trained to get to `step`."""
        return self._engine.plan.unshared(config, step)

    def spent(self, study: str) -> float:
        """Return the worker-seconds that a study has taken so far."""
        return self._engine.spent(study, self.now())

    def out_of(self, study: str) -> Limit | None:
        """Return the limit by which nothing more of a study comes."""
        return self._engine.out_of(study)

    def counters(self) -> Counters:
        """Return what was counted."""
        return Counters(self._engine.trained, self._engine.worker_seconds, self._engine.proof_work)

    def pace(self) -> Pace:
        """Return what training takes."""
        profile = self._engine.profile
        return Pace(profile.usual, profile.startup, self._engine.widest)

    def pulse(self, since: float, asks: Iterable[tuple[Node, int]] | None) -> Pulse:
        """Return how training goes; what runs counts from `since` on, and steps where there are `asks`."""
        return take_pulse(self._engine, self.now(), self.workers, since, asks)
