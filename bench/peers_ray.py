"""Ray Tune, as its documentation says for a study with two trials at a time on one machine."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler, HyperBandForBOHB
from ray.tune.search import Searcher

from peers_process import Engine
from peers_study import METRIC, MODE, REDUCTION, WORKERS, Alone, Losses, Task

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # otherwise its workers yield to everything else that runs
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
}


class Trained(tune.Trainable):  # type: ignore[misc, unused-ignore]
    """One trial at a time in an actor; a step of Tune's trains to the next rung."""

    def setup(self, config: dict[str, Any]) -> None:
        self._task: Task = config["task"]
        self._alone = Alone(self._task)
        self.reset_config(config)

    def reset_config(self, new_config: Mapping[str, Any]) -> bool:
        self._number = new_config["trial"]
        self._begun = False
        return True

    def step(self) -> dict[str, Any]:
        if not self._begun:
            self._alone.begin(self._number)
            self._begun = True
        rung = next(rung for rung in self._task.rungs if rung > self._alone.step)
        loss = self._alone.train_to(rung)
        return {
            METRIC: loss,
            "steps": rung,
            "first_rungs": REDUCTION ** self._task.rungs.index(rung),
            "done": rung == self._task.max_steps,
        }

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        self._alone.save(Path(checkpoint_dir, str(self._alone.step)))

    def load_checkpoint(self, checkpoint: Any) -> None:
        (path,) = (path for path in Path(checkpoint).iterdir() if path.name.isdigit())
        self._alone.load(self._number, int(path.name), path)
        self._begun = True


class Listed(Searcher):  # type: ignore[misc, unused-ignore]
    """Suggests given configs one after the other."""

    def __init__(self, configs: list[dict[str, Any]]) -> None:
        super().__init__(metric=METRIC, mode=MODE)
        self._left = configs[::-1]

    def suggest(self, trial_id: str) -> Any:
        return self._left.pop() if self._left else Searcher.FINISHED

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Nothing is learned from results."""

    def on_pause(self, trial_id: str) -> None:
        """Nor from pauses, of which HyperBandForBOHB tells."""

    def on_unpause(self, trial_id: str) -> None:
        """Nor from their ends."""


class RayTune(Engine):
    """Ray Tune on a cluster that is up before its time begins.

    `variant` is "default" or "reuse" (``reuse_actors=True``), and "asha" for the latter with `ASHAScheduler`
    in place of the exact algorithm.
    """

    def __init__(self, task: Task, variant: str) -> None:
        super().__init__(task)
        self._variant = variant
        self.given = (
            f"{self._scheduler()[1]}; reuse_actors={variant != 'default'}; class Trainable with "
            "reset_config, one CPU for each; a result for each rung; no loggers, verbose=0, no checkpoint at "
            "the end; a cluster with two CPUs, without dashboard, its workers not niced, up before the time "
            "begins"
        )

    def start(self) -> None:
        os.environ.update(_ENVIRONMENT)
        ray.init(
            num_cpus=WORKERS,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=256 << 20,
            # Sockets are made in it, whose paths have to be short.
            _temp_dir=tempfile.mkdtemp(prefix="r", dir=self.task.data.parent),
        )

    def run(self) -> Losses:
        task = self.task
        scheduler, _ = self._scheduler()
        configs = [{"trial": trial, "task": task} for trial in range(task.trials)]
        if isinstance(scheduler, HyperBandForBOHB):
            # Of equal trials it prefers those that came last, and Hippo those that come first.
            search: dict[str, Any] = {"search_alg": Listed(configs[::-1]), "num_samples": task.trials}
            space: dict[str, Any] = {}
        else:
            search = {}
            space = {"trial": tune.grid_search(list(range(task.trials))), "task": task}
        results = tune.Tuner(
            tune.with_resources(Trained, {"cpu": 1}),
            param_space=space,
            tune_config=tune.TuneConfig(
                metric=METRIC,
                mode=MODE,
                scheduler=scheduler,
                reuse_actors=self._variant != "default",
                **search,
            ),
            run_config=tune.RunConfig(
                name=task.algorithm,
                storage_path=str(task.home),
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(num_to_keep=1, checkpoint_at_end=False),
            ),
        ).fit()
        if results.errors:
            raise results.errors[0]
        losses: Losses = {}
        for place in range(len(results)):
            metrics: Any = results[place].metrics
            losses[metrics["config"]["trial"]] = {metrics["steps"]: metrics[METRIC]}
        return losses

    def close(self) -> None:
        ray.shutdown()

    def _scheduler(self) -> tuple[Any, str]:
        task = self.task
        if task.algorithm == "grid":
            return None, "FIFOScheduler; no checkpoints"
        if self._variant == "asha":
            asha = ASHAScheduler(
                time_attr="steps",
                max_t=task.max_steps,
                grace_period=task.min_steps,
                reduction_factor=REDUCTION,
            )
            return asha, "ASHAScheduler, which resumes no trial; no checkpoints"
        # Where time is counted in first rungs and a trial gets at most η^s, the first bracket has η^s trials
        # and rungs at 1, η, … η^s: it is successive halving, and takes all the trials there are.
        hyperband = HyperBandForBOHB(time_attr="first_rungs", max_t=task.trials, reduction_factor=REDUCTION)
        return hyperband, "HyperBandForBOHB with its first bracket alone; a checkpoint at each pause"
