"""A user's script, for tests to run, interrupt and run again: ``python survivor.py HOME LOG STEPS``.

Every trained step is a line in LOG that names all values it was trained with. With HIPPO_GATE in the
environment, every step of a path from the third on says that it is there and waits until it is let through.
With HIPPO_EVERY, long stages are saved on their way after that many seconds.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hippotune as hippo
from hippotune import MultiStep

SPACE = {"lr": [0.5, MultiStep(0.5, [4], 0.5), MultiStep(0.5, [6], 0.1)], "scale": [1, 2]}


class Survivor(hippo.Trainer):
    """A random walk with a memory: `weights` are what it knows, `values` all that it was trained with."""

    size = 1000

    def build(self) -> None:
        self.target = np.random.normal(size=self.size)
        self.weights = np.zeros(self.size)
        self.values: list[tuple[float, float]] = []

    def setup(self, hp: Mapping[str, Any]) -> None:
        if "lr" in hp:
            self.lr = hp["lr"]
        if "scale" in hp:
            self.scale = hp["scale"]

    def train(self) -> None:
        noise = np.random.normal(size=self.size) * random.random()
        self.weights = self.weights + self.lr * (self.target - self.weights) / self.scale + 0.01 * noise
        self.values.append((self.lr, self.scale))
        self.log(first=self.weights[0])
        with Path(self.settings["log"]).open("a") as log:
            log.write(f"{json.dumps(self.values)}\n")
        gate = os.environ.get("HIPPO_GATE")
        if gate and len(self.values) >= 3:
            with open(f"{gate}/here", "wb", 0) as here, open(f"{gate}/go", "rb", 0) as go:
                here.write(b".")
                go.read(1)

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": float(np.sum((self.weights - self.target) ** 2))}


def main(home: str, log: str, steps: str) -> None:
    """Tune, and say what came of it."""
    study = hippo.Study(
        *("survivor", Survivor),
        home=home,
        executor=hippo.Local(workers=1),
        settings={"log": log},
        checkpoint_every=float(os.environ.get("HIPPO_EVERY", "600")),
    )
    with study:
        report = study.tune(hippo.GridSearch(SPACE, metric="loss", mode="min", max_steps=int(steps)))
        best = report.best.load()
    assert isinstance(best, Survivor)
    found = [[dict(trial.metrics), report.logged(trial)] for trial in report.trials]
    print(json.dumps([found, best.weights.tolist()]))


if __name__ == "__main__":
    main(*sys.argv[1:])
