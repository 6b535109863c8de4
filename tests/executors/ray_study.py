"""A user's script, for tests to run, kill and run again: ``python ray_study.py ADDRESS HOME GATE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ray

import hippotune as hippo
from executors.noisy import Noisy
from hippotune.executors.base import Executor

HOLD = 3
SPACE = {
    "rate": [0.1, hippo.MultiStep(0.1, [4], 0.5), hippo.MultiStep(0.1, [6], 0.1), 0.3],
    "fault": ["none"],
    "hold": [HOLD],
}


def results(executor: Executor, home: Path, gate: str) -> Any:
    """Tune, and return the metrics of all trials and the best trial's weights."""
    settings = {"gate": gate}
    with hippo.Study("noisy", Noisy, home=home, executor=executor, settings=settings, version="1") as study:
        report = study.tune(hippo.GridSearch(SPACE, metric="sum", mode="max", max_steps=8), progress=False)
        best = report.best.load()
    assert isinstance(best, Noisy)
    trials = [
        {str(step): {**metrics, "pid": 0} for step, metrics in trial.metrics.items()}
        for trial in report.trials
    ]
    return [trials, best.weights.tolist()]


if __name__ == "__main__":
    _, address, home, gate = sys.argv
    print(json.dumps(results(hippo.Ray(address, workers=1), Path(home), gate)))
    assert not ray.is_initialized()  # a cluster that Hippo joined it leaves
