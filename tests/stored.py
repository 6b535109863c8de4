"""Small studies that are really trained and stored, for the tests of what is read back from stores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hippotune as hippo
from hippotune import Config, Study, Trainer
from hippotune.executors.local.executor import Local
from hippotune.study.report import Report
from hippotune.tuners import TrialGroup, Trials, Tuner


class Falling(Trainer):
    """A ball that comes down by a part of its height at every step, unless it is too heavy for that."""

    def build(self) -> None:
        self.height, self.steps, self.hp = 1.0, 0, dict[str, Any]()

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.hp.update(hp)

    def train(self) -> None:
        self.steps += 1
        if self.hp.get("weight", 0) > 9 and self.steps == 3:
            raise ValueError(f"a weight of {self.hp['weight']} is too much")
        self.height *= 1 - self.hp["lr"] * self.hp.get("scale", 1.0)
        self.log(height=self.height, **({"bounce": self.hp["lr"]} if self.steps % 3 == 0 else {}))

    def evaluate(self) -> Mapping[str, float]:
        return {"height": self.height, "fallen": 1 - self.height}


class Asking(Tuner):
    """Asks for groups of configs, one after the other; the trials of one go on in the next."""

    metric, mode = "height", "min"

    def __init__(self, configs: list[dict[str, Any]], *steps: int, every: int | None = None) -> None:
        self.configs = [Config(values) for values in configs]
        self.steps, self.every = steps, every

    async def run(self, trials: Trials) -> None:
        """Train all as far as the first step, and fewer and fewer further."""
        going_on: list[Any] = list(self.configs)
        for step in self.steps:
            asked = trials.submit(TrialGroup.of(going_on, step, self.every))
            results = await trials.all(asked)
            going_on = [result.trial for result in results if not result.failed]
            going_on = going_on[: max(len(going_on) // 2, 1)]


def study(name: str, home: Path, **more: Any) -> Study:
    return Study(name, Falling, home=home, executor=Local(workers=1), **{"version": "1", **more})


def trained(name: str, home: Path, tuner: Tuner, **more: Any) -> Report:
    """Train a study to its end."""
    with study(name, home, **more) as opened:
        return opened.tune(tuner, progress=False)


LATE = hippo.MultiStep(0.5, [4], 0.1)
DECAYS: list[dict[str, Any]] = [{"lr": lr, "scale": scale} for lr in (0.5, LATE) for scale in (0.5, 1.0)]
