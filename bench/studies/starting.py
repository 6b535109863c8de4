"""The study for `startup.py`: the bare script's network; its first step says when it was trained."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

import hippotune as hippo


class Starting(hippo.TorchTrainer):
    """Trains one mini-batch a step."""

    def build(self) -> None:
        self.model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.inputs, self.targets = torch.randn(128, 64), torch.randint(10, (128,))

    def train(self) -> None:
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(self.inputs), self.targets).backward()
        self.optimizer.step()
        told = Path(self.settings["told"])
        if not told.exists():
            part = told.with_name(f"part-{os.getpid()}")
            part.write_text(str(time.time()))
            part.rename(told)

    def evaluate(self) -> dict[str, float]:
        return {"loss": nn.functional.cross_entropy(self.model(self.inputs), self.targets).item()}


workers, home = int(sys.argv[1]), sys.argv[2]
study = hippo.Study(
    "starting",
    Starting,
    home=home,
    executor=hippo.Local(workers=workers),
    settings={"told": os.environ["HIPPO_BENCH_TOLD"]},
)
tuner = hippo.GridSearch({"lr": [0.1 / 2**n for n in range(8)]}, metric="loss", mode="min", max_steps=50)
