"""Runs of the Hippo paper's studies in virtual time: scores of their trials, and what a run takes.

Which trials go on decides how much is shared, and the paper's learning curves are not known. Scores are made
up in two ways, both functions of the values before a step alone, as in training; both rise with every step,
so that the best trial of a study is one of those that were trained longest:

  random   a number drawn for each state: nothing of a trial says how a related one does;
  subtree  a random walk along the tree: two trials differ by what came after they parted, so that whole
           subtrees go on, or end, together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from statistics import NormalDist
from typing import Any, Literal

import hippotune as hippo
from hippotune import Config
from hippotune.engine.options import EngineOptions
from hippotune.executors.base import Job
from hippotune.executors.simulated.executor import Simulated
from hippotune.plan.facts import SpanRecorded
from hippotune.protocol.events import MetricsRequired
from hippotune.scheduling import WidthPolicy
from hippotune.sequences import Sequence as Values
from hippotune.shell.loop import Loop
from hippotune.shell.runtime import Runtime
from hippotune.store.memory import MemoryStore
from hippotune.study.completion import AS_GIVEN
from hippotune.study.placement import Placement
from hippotune.study.report import best_result
from hippotune.study.tuning import Tuning
from hippotune.tuners.base import Trial, TrialGroup, Trials, Tuner

GPUS = 40
METRIC = "accuracy"
Kind = Literal["random", "subtree"]
_RISE = 100.0  # more than what is drawn for a step
KINDS: tuple[Kind, ...] = ("random", "subtree")


class Survivors:
    """Scores by config and step, decided by a seed. See the module."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self._kind, self._seed = kind, str(seed).encode()
        self._walks: dict[Config, list[float]] = {}

    def __call__(self, config: Config, step: int) -> dict[str, float]:
        if self._kind == "random":
            return {METRIC: _RISE * step + self._drawn(config, step)}
        walk = self._walks.setdefault(config, [0.0])
        while len(walk) <= step:
            walk.append(walk[-1] + self._drawn(config, len(walk)))
        return {METRIC: _RISE * step + walk[step]}

    def _drawn(self, config: Config, step: int) -> float:
        digest = blake2b(self._seed, digest_size=7)
        for name in config.names:
            digest.update(name.encode())
            digest.update(_beginnings(config[name], step)[step])
        return NormalDist().inv_cdf((int.from_bytes(digest.digest()) + 0.5) / 2**56)


def _beginnings(values: Values, step: int) -> list[bytes]:
    """Return a digest of the values before each step, at least up to `step`."""
    known = _known(values)
    while len(known) <= step:
        known.append(blake2b(known[-1] + repr(values.value(len(known) - 1)).encode(), digest_size=8).digest())
    return known


@lru_cache(maxsize=4096)
def _known(values: Values) -> list[bytes]:
    return [b""]


class RayASHA(hippo.ASHA):
    """ASHA as Ray Tune has it: a trial that is good enough at a rung goes on at once, any other is stopped.

    The cutoff is a percentile of what came to the rung before, and no stopped trial is taken up again.
    """

    async def run(self, trials: Trials) -> None:
        """Keep every worker busy until all trials have ended."""
        rungs = self.rung_steps
        records: dict[int, list[float]] = {rung: [] for rung in rungs}
        waiting = iter(self.configs())
        while True:
            while trials.open < trials.workers and (config := next(waiting, None)) is not None:
                trials.submit(TrialGroup.of([config], rungs[0]))
            if not trials.open:
                return
            result = await trials.next()
            score, passed = self.score(result), records[result.step]
            cutoff = _percentile(passed, 1 - 1 / self.reduction) if passed else score
            passed.append(score)
            if result.step < rungs[-1] and score >= cutoff:
                trials.submit(TrialGroup.of([result.trial], rungs[rungs.index(result.step) + 1]))


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


class StandIn(hippo.Trainer):
    """In place of a network; nothing is trained in virtual time."""

    widens = True

    def setup(self, hp: Mapping[str, Any]) -> None:
        pass

    def train(self) -> None:
        pass

    def evaluate(self) -> dict[str, float]:
        return {}


@dataclass(frozen=True)
class Cost:
    """What a run took, in steps: of all workers together, and from the start to the end."""

    work: float
    time: float


class Apart(Placement):
    """Keeps the trials of one of several studies apart from all others."""

    def __init__(self, loop: Loop, study: str) -> None:
        super().__init__(loop.readings, False, AS_GIVEN)
        self._study = study

    def isolation_key(self, trial: Trial) -> str:
        return f"{self._study} {trial.number}"


def simulate(
    tuners: Sequence[Tuner],
    share: bool,
    further: int,
    scores: Survivors | None = None,
    policy: WidthPolicy | None = None,
    **costs: Any,
) -> tuple[Cost, list[SpanRecorded]]:
    """Run tuners at once on one pool of workers, where a step takes a second on one; the best goes `further`.

    `costs` is what else virtual workers are given. Return the cost and the time of each worker.
    """
    store = MemoryStore()
    runtime = Runtime(store, Simulated(GPUS, metrics=scores, **costs), Job(StandIn), EngineOptions(policy))
    runtime.start()
    try:
        return runtime.run(_simulate(runtime, tuners, share, further)), list(store.spans())
    finally:
        runtime.close()


async def _simulate(runtime: Runtime, tuners: Sequence[Tuner], share: bool, further: int) -> Cost:
    loop = runtime.loop
    loop.handle(MetricsRequired(frozenset(tuner.metric for tuner in tuners)))

    async def tune(number: int, tuner: Tuner) -> None:
        name = f"study {number}"
        tuning = Tuning(loop, name, share)
        if not share:
            tuning.placement = Apart(loop, name)
        await tuning.run(tuner)
        best = best_result(tuning.results, tuner.metric, tuner.mode)
        if further and best is not None:
            await tuning.once(TrialGroup.of([best.trial], best.step + further))

    await asyncio.gather(*[tune(number, tuner) for number, tuner in enumerate(tuners)])
    time = loop.executor.now()
    await loop.wait_idle()
    return Cost(loop.engine.worker_seconds, time)
