"""A study in which a process dies in the middle of a proof: ``python mortal_proofs.py HOME VICTIM STEP``.

The first repetition of STEP along the first trial kills its worker, or the driver, once. It prints what every
trial came to, and what is proved.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hippotune as hippo
from hippotune import MultiStep

BRANCH = 4
SPACE = {"lr": [0.5, MultiStep(0.5, [BRANCH], 0.1)]}
STEPS = 7


class Walk(hippo.Trainer):
    """A random walk that keeps a list, in a file, of the steps that were trained with the first config."""

    def build(self) -> None:
        self.place = np.random.normal(size=4)
        self.steps = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp["lr"]

    def train(self) -> None:
        self.steps += 1
        self.place = self.place * 0.9 + self.lr * np.random.normal(size=4)
        if self.lr == 0.5:
            self.die_if_this_is_a_repetition()

    def die_if_this_is_a_repetition(self) -> None:
        folder, victim = Path(self.settings["folder"]), self.settings["victim"]
        trained, death = folder / f"step-{self.steps}", folder / "death"
        if trained.exists() and self.steps == self.settings["step"] and not death.exists():
            death.touch()
            driver = int((folder / "driver").read_text())
            os.kill(driver if victim == "driver" else os.getpid(), signal.SIGKILL)
        trained.touch()

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": float(np.sum(self.place**2))}


def main(home: str, victim: str, step: str) -> None:
    """Tune, and say what came of it."""
    Path(home).mkdir(exist_ok=True)
    Path(home, "driver").write_text(str(os.getpid()))
    settings = {"folder": home, "victim": victim, "step": int(step)}
    executor = hippo.Local(workers=1)
    with hippo.Study("proofs", Walk, home=home, executor=executor, settings=settings) as study:
        report = study.tune(hippo.GridSearch(SPACE, "loss", "min", STEPS), progress=False)
    print(json.dumps([[dict(trial.metrics[STEPS]) for trial in report.trials], report.exactness]))


if __name__ == "__main__":
    main(*sys.argv[1:])
