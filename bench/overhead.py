"""What the engine costs where training costs nothing: 100 trials of a trivial trainer, 10 reports each.

Worker processes are up. Every report is durable in SQLite before the tuner hears of it, and so is every
checkpoint at a trial's end. Optuna 5 does the same number of trials and reports with its SQLite storage, in
the same run.

Bars:
  at most 1 s in all;
  at most a fifth of the time that Optuna takes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hippo
from harness import Bar, Figures, run
from hippo import Config, Study, TrialGroup, Tuner

TRIALS, REPORTS = 100, 10
BARS = [Bar("hippo_seconds", "at most", 1.0), Bar("hippo_to_optuna", "at most", 0.2)]


class Trivial(hippo.Trainer):
    """Trains nothing."""

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.x = hp["x"]

    def train(self) -> None:
        pass

    def evaluate(self) -> Mapping[str, float]:
        return {"y": self.x}

    def save(self, path: Path) -> None:
        path.write_text(repr(self.x))

    def load(self, path: Path) -> None:
        self.x = float(path.read_text())


class All(Tuner):
    """Asks for everything at once, with reports along the way."""

    metric, mode = "y", "min"

    def __init__(self, configs: list[Config], step: int) -> None:
        self.configs, self.step = configs, step

    async def run(self, trials: hippo.Trials) -> None:
        trials.submit(TrialGroup.of(self.configs, self.step, every=1))
        while trials.open:
            await trials.next()


def hippo_seconds() -> float:
    many = [Config({"x": float(number)}) for number in range(TRIALS)]
    with (
        tempfile.TemporaryDirectory() as home,
        Study("overhead", Trivial, home=home, executor=hippo.Local(workers=2)) as study,
    ):
        study.tune(All([Config({"x": -1.0}), Config({"x": -2.0})], 1), progress=False)
        began = time.perf_counter()
        study.tune(All(many, REPORTS), progress=False)
        return time.perf_counter() - began


def optuna_seconds() -> float:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        for step in range(REPORTS):
            trial.report(x, step)
        return x

    with tempfile.TemporaryDirectory() as home:
        study = optuna.create_study(
            storage=f"sqlite:///{home}/optuna.db", sampler=optuna.samplers.RandomSampler(seed=0)
        )
        began = time.perf_counter()
        study.optimize(objective, n_trials=TRIALS)
        return time.perf_counter() - began


def measure(options: argparse.Namespace) -> Figures:
    ours = sorted(hippo_seconds() for _ in range(options.repeat))[options.repeat // 2]
    theirs = sorted(optuna_seconds() for _ in range(options.repeat))[options.repeat // 2]
    return {"hippo_seconds": ours, "optuna_sqlite_seconds": theirs, "hippo_to_optuna": ours / theirs}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeat", type=int, default=3, help="take the median of so many runs (3)")


if __name__ == "__main__":
    run(__doc__, measure, BARS, arguments)
