"""How close a shared study comes to the physical limit.

No schedule can end before the longest chain of steps is trained, nor before all unique steps are trained by all
workers together. Real studies (a grid, and successive halving rung by rung) run on two worker processes, with
trainers whose step takes a fixed time of real computing; the limit follows from the steps and from the step time
that the trainers measured in the same run.

Bars: wall time at most 1.1 times max(longest chain, unique work / workers), for steps of 20 and of 50 ms.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from harness import Bar, Figures, run

import hippo
from hippo import Config, Exponential, MultiStep, Study, TrialGroup, Tuner, Warmup
from hippo.plan.plan import Plan, unique_steps
from hippo.stages.tree import stage_tree

WORKERS = 2
STEPS = 60
BARS = [
    Bar("grid_20ms_ratio", "at most", 1.1),
    Bar("grid_50ms_ratio", "at most", 1.1),
    Bar("halving_20ms_ratio", "at most", 1.1),
]


class Busy(hippo.Trainer):
    """Computes for a fixed time a step, and knows how long its steps really took."""

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

    def save(self, path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, state=self.state, spent=self.spent, steps=self.steps)

    def load(self, path: Path) -> None:
        with np.load(path) as saved:
            self.state, self.spent, self.steps = saved["state"], float(saved["spent"]), int(saved["steps"])


def configs() -> list[Config]:
    rates = [0.1, Exponential(0.1, 0.95), Warmup(5, MultiStep(0.1, [30, 45], 0.1))]
    rates += [MultiStep(0.1, [first, first + 15], 0.1) for first in (20, 30, 40)]
    return [Config({"lr": lr, "bs": bs}) for lr in rates for bs in (128, MultiStep(128, [35], 2))]


class Rounds(Tuner):
    """Trains all configs to each milestone in turn, keeping as many as said; one round is a grid."""

    metric, mode = "score", "max"

    def __init__(self, rounds: list[tuple[int, int]]) -> None:
        self.rounds = rounds
        self.step_seconds: list[float] = []

    async def run(self, trials: hippo.Trials) -> None:
        trials.foresee(configs(), STEPS)
        standing: list[Any] = list(configs())
        for keep, step in self.rounds:
            results = await trials.all(trials.submit(TrialGroup.of(standing, step)))
            self.step_seconds += [result.metrics["step_seconds"] for result in results if result.metrics]
            standing = [result.trial for result in results][:keep]


def limit_in_steps(rounds: list[tuple[int, int]]) -> float:
    """Return the sum over rounds of max(longest chain, unique steps / workers)."""
    plan = Plan()
    standing, before, limit = configs(), 0, 0.0
    for keep, step in rounds:
        asks = [(plan.place(config, step)[0], step) for config in standing]
        left = unique_steps(asks) - unique_steps([(plan.place(c, before)[0], before) for c in standing if before])
        chain = stage_tree(asks, scratch=True).longest_chain - before
        limit += max(chain, left / WORKERS)
        standing, before = standing[:keep], step
    return limit


def ratio(seconds: float, rounds: list[tuple[int, int]]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as home:
        study = Study("bound", Busy, home=home, executor=hippo.Local(WORKERS), settings={"seconds": seconds})
        with study:
            study.eval(Config({"lr": 99.0, "bs": 1}), 1)  # workers are up and have built
            tuner = Rounds(rounds)
            report = study.tune(tuner, progress=False)
    bound = limit_in_steps(rounds) * float(np.mean(tuner.step_seconds))
    return report.work.wall_seconds / bound, bound


def measure(_: argparse.Namespace) -> Figures:
    grid, halving = [(12, STEPS)], [(6, 15), (3, 30), (3, STEPS)]
    figures: dict[str, float] = {}
    for name, seconds, rounds in (
        ("grid_20ms", 0.02, grid),
        ("grid_50ms", 0.05, grid),
        ("halving_20ms", 0.02, halving),
    ):
        figures[f"{name}_ratio"], figures[f"{name}_limit_seconds"] = ratio(seconds, rounds)
    return figures


if __name__ == "__main__":
    run(__doc__, measure, BARS)
