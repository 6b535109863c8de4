"""How close a shared study comes to the physical limit.

No schedule can end before the longest chain of steps is trained, nor before all unique steps are trained by
all workers together. Real studies run on two worker processes, with trainers whose step takes a fixed time of
real computing: a grid asked for at once, and the same grid asked for in groups, one more whenever a result
comes. The limit follows from the steps and from the step time that the trainers measured in the same run.

Each is run three times; medians count.

Bars: wall time over max(longest chain, unique work / workers) at most 1.05 for steps of 50 ms, and at most
1.08 for steps of 20 ms, asked for at once or in groups.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune import Config, Exponential, MultiStep, Study, Warmup
from hippotune.plan.plan import Plan, unique_steps
from hippotune.stages.tree import stage_tree
from hippotune.tuners import TrialGroup, Tuner

WORKERS = 2
REPEATED = 3
STEPS = 60
BARS = [
    Bar("grid_20ms_ratio", "at most", 1.08),
    Bar("grid_50ms_ratio", "at most", 1.05),
    Bar("groups_20ms_ratio", "at most", 1.08),
]


class Busy(hippo.Trainer):
    """Computes for a fixed time a step, and knows how long its steps really took."""

    volatile = frozenset({"self.spent", "self.state", "step_seconds"})

    def build(self) -> None:
        self.matrix = np.random.default_rng(self.seed).normal(size=(64, 64))
        self.state = np.zeros(64)
        self.spent = 0.0
        self.steps = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp.get("lr", getattr(self, "lr", 0.0))
        self.bs = hp.get("bs", getattr(self, "bs", 0))

    def train(self) -> None:
        began = time.perf_counter()
        while time.perf_counter() - began < self.settings["seconds"]:
            self.state = np.tanh(self.matrix @ self.state + self.lr)
        self.spent += time.perf_counter() - began
        self.steps += 1

    def evaluate(self) -> Mapping[str, float]:
        return {"score": float(self.lr), "step_seconds": self.spent / max(self.steps, 1)}


def configs() -> list[Config]:
    rates = [0.1, Exponential(0.1, 0.95), Warmup(5, MultiStep(0.1, [30, 45], 0.1))]
    rates += [MultiStep(0.1, [first, first + 15], 0.1) for first in (20, 30, 40)]
    return [Config({"lr": lr, "bs": bs}) for lr in rates for bs in (128, MultiStep(128, [35], 2))]


class Groups(Tuner):
    """Asks for a number of configs, and for as many again whenever a result comes."""

    metric, mode = "score", "max"

    def __init__(self, size: int) -> None:
        self.size = size
        self.step_seconds: list[float] = []

    async def run(self, trials: hippo.tuners.Trials) -> None:
        waiting = configs()
        trials.foresee(waiting, STEPS)
        while waiting or trials.open:
            group, waiting = waiting[: self.size], waiting[self.size :]
            trials.submit(TrialGroup.of(group, STEPS))
            result = await trials.next()
            if result.metrics:
                self.step_seconds.append(result.metrics["step_seconds"])


def limit_in_steps() -> float:
    plan = Plan()
    asks = [(plan.place(config, STEPS)[0], STEPS) for config in configs()]
    return max(stage_tree(asks).longest_chain, unique_steps(asks) / WORKERS)


def ratio(seconds: float, size: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as home:
        study = Study("bound", Busy, home=home, executor=hippo.Local(WORKERS), settings={"seconds": seconds})
        with study:
            study.eval(Config({"lr": 99.0, "bs": 1}), 2)  # workers are up, and the plan is rehearsed
            tuner = Groups(size)
            report = study.tune(tuner, progress=False)
    limit = limit_in_steps() * float(np.mean(tuner.step_seconds))
    return report.work.wall_seconds / limit, limit


def measure(_: argparse.Namespace) -> Figures:
    figures: dict[str, float] = {}
    for name, seconds, size in (("grid_20ms", 0.02, 99), ("grid_50ms", 0.05, 99), ("groups_20ms", 0.02, 3)):
        runs = [ratio(seconds, size) for _ in range(REPEATED)]
        figures[f"{name}_ratio"] = statistics.median(each for each, _ in runs)
        figures[f"{name}_least"] = min(each for each, _ in runs)
        figures[f"{name}_most"] = max(each for each, _ in runs)
        figures[f"{name}_limit_seconds"] = statistics.median(limit for _, limit in runs)
    return figures


if __name__ == "__main__":
    run(__doc__, measure, BARS)
