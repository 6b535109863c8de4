"""What the engine costs where training costs nothing: 100 trials of a trivial trainer, 10 reports each.

What a plan costs once (workers come up, its first trial) is in a first small study, and in a row of its own;
the rest is timed on worker processes that are up. Every report is durable in SQLite before the tuner hears of
it, and so is every checkpoint at a trial's end. Optuna 5 does the same number of trials and reports with its
SQLite storage, in the same run.

Bars:
  at most 1 s in all;
  at most an eighth of the time that Optuna takes.

With ``--executor ray``: 1,000 stages of one step, each a trial of its own, on two actors that are up, with
the same durability. Ray Tune does the same 1,000 trials on the same cluster, in the way that is quickest for
it: two actors that it uses again (``reuse_actors=True``), one report each, no checkpoints, no loggers. It
starts its actors anew for every study: what two trials take is that, for the most part. Local processes do
the 1,000 too.

Bars:
  at most 10 ms of engine and Ray a stage;
  at most a third of the time that Ray Tune takes.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune import Config, Study
from hippotune.executors.base import Executor
from hippotune.tuners import TrialGroup, Tuner

TRIALS, REPORTS = 100, 10
BARS = [Bar("hippo_seconds", "at most", 1.0), Bar("hippo_to_optuna", "at most", 0.125)]
STAGES = 1000
_RAY_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # otherwise its workers yield to everything else that runs
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
}
BARS_ON_RAY = [Bar("hippo_ms_a_stage", "at most", 10.0), Bar("hippo_to_ray_tune", "at most", 1 / 3)]


class Trivial(hippo.Trainer):
    """Trains nothing."""

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.x = hp["x"]

    def train(self) -> None:
        pass

    def evaluate(self) -> Mapping[str, float]:
        return {"y": self.x}


class All(Tuner):
    """Asks for everything at once, with reports along the way."""

    metric, mode = "y", "min"

    def __init__(self, configs: list[Config], step: int) -> None:
        self.configs, self.step = configs, step

    async def run(self, trials: hippo.tuners.Trials) -> None:
        trials.submit(TrialGroup.of(self.configs, self.step, every=1))
        while trials.open:
            await trials.next()


def hippo_seconds(executor: Executor, trials: int, reports: int) -> tuple[float, float]:
    """Return the seconds that the first study on a plan takes, and those of the one that is measured."""
    many = [Config({"x": float(number)}) for number in range(trials)]
    with (
        tempfile.TemporaryDirectory() as home,
        Study("overhead", Trivial, home=home, executor=executor) as study,
    ):
        began = time.perf_counter()
        study.tune(All([Config({"x": -1.0}), Config({"x": -2.0})], 2), progress=False)
        first = time.perf_counter()
        study.tune(All(many, reports), progress=False)
        return first - began, time.perf_counter() - first


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


def ray_tune_seconds(trials: int) -> float:
    from ray import tune

    class Trained(tune.Trainable):  # type: ignore[misc, unused-ignore]
        """Trains nothing, with the setting that is quickest."""

        def setup(self, config: dict[str, Any]) -> None:
            self.reset_config(config)

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            self.x = new_config["x"]
            return True

        def step(self) -> dict[str, Any]:
            return {"y": self.x, "done": True}

    with tempfile.TemporaryDirectory() as home:
        tuner = tune.Tuner(
            tune.with_resources(Trained, {"cpu": 1}),
            param_space={"x": tune.grid_search([float(number) for number in range(trials)])},
            tune_config=tune.TuneConfig(metric="y", mode="min", reuse_actors=True),
            run_config=tune.RunConfig(
                storage_path=home,
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        )
        began = time.perf_counter()
        with contextlib.redirect_stdout(sys.stderr):  # it has things to say, however quiet it is told to be
            results = tuner.fit()
        seconds = time.perf_counter() - began
    if results.errors:
        raise results.errors[0]
    return seconds


def measure_on_ray(options: argparse.Namespace) -> Figures:
    os.environ.update(_RAY_ENVIRONMENT)
    import ray

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=256 << 20,
    )
    try:
        ours = median(hippo_seconds(hippo.Ray(workers=2), STAGES, 1)[1] for _ in range(options.repeat))
        local = median(
            hippo_seconds(hippo.Local(workers=2, threads=1), STAGES, 1)[1] for _ in range(options.repeat)
        )
        theirs, start = ray_tune_seconds(STAGES), ray_tune_seconds(2)
    finally:
        ray.shutdown()
    return {
        "hippo_ms_a_stage": 1000 * ours / STAGES,
        "hippo_ms_a_stage_on_local_processes": 1000 * local / STAGES,
        "ray_tune_ms_a_trial": 1000 * theirs / STAGES,
        "ray_tune_seconds": theirs,
        "ray_tune_seconds_for_two_trials": start,
        "hippo_to_ray_tune": ours / theirs,
    }


def measure(options: argparse.Namespace) -> Figures:
    if options.executor == "ray":
        return measure_on_ray(options)
    runs = [hippo_seconds(hippo.Local(workers=2), TRIALS, REPORTS) for _ in range(options.repeat)]
    first, ours = (median(seconds) for seconds in zip(*runs, strict=True))
    theirs = median(optuna_seconds() for _ in range(options.repeat))
    return {
        "first_study_seconds": first,
        "hippo_seconds": ours,
        "optuna_sqlite_seconds": theirs,
        "hippo_to_optuna": ours / theirs,
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeat", type=int, default=3, help="how many runs to take the median of (3)")
    parser.add_argument(
        "--executor", choices=["local", "ray"], default="local", help="where to train (local)"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    arguments(parser)
    on_ray = parser.parse_known_args()[0].executor == "ray"
    run(__doc__, measure, BARS_ON_RAY if on_ray else BARS, arguments)
