"""A network that learns smoothly: tiny differences between two runs of it stay tiny."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import hippotune as hippo
from trainers.light import Descent, Light

torch.set_num_threads(1)  # the network is too small for more, and one process is as exact as another then


class Smooth(hippo.TorchTrainer):
    """Fits a curve, of which the two halves are sources of a mixture, by the `loss` that the settings name.

    Two of them are not what they are on one worker: a sum that is divided by the batch size as if the batch
    were whole, and a dropout on (time, batch, features), where there are as many times as samples in a part.

    Where a file in the folder `deaths` of the settings is named by a rank, that rank removes it and kills its
    own process in a step that several train together, and that is not one of the first.

    With `skips`, the first of several that train together leaves out batches, but in its first steps.
    """

    def build(self) -> None:
        torch.manual_seed(self.seed)
        points = torch.linspace(-2, 2, 256).unsqueeze(1)
        self.points, self.targets = points, torch.sin(2 * points)
        halves = zip(("left", "right"), points.split(128), self.targets.split(128), strict=True)
        sources = {name: TensorDataset(*half) for name, *half in halves}
        self.loader = hippo.Loader(sources, 64, seed=self.seed, mixture={"left": 1, "right": 1})
        self.model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 1))
        self.optimizer = self.new_optimizer()
        self.steps = 0

    def new_optimizer(self) -> Any:
        return torch.optim.SGD(self.model.parameters(), lr=0.01)

    def train(self) -> None:
        self.steps += 1
        self.die_if_told()
        for points, targets in self.loader.batches(4):
            if self.settings.get("skips") and self.rank < self.width - 1 and self.steps > 4:
                continue
            self.optimizer.zero_grad()
            self.loss(points, targets).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

    def loss(self, points: Tensor, targets: Tensor) -> Tensor:
        kind = self.settings.get("loss", "mean")
        if kind == "time first":
            points = nn.functional.dropout(points.expand(32, -1, 1), 0.2).mean(0)
        squares = (self.model(points) - targets) ** 2
        if kind == "sum":
            return squares.sum() / 64
        if kind == "shared sum":
            return squares.sum() * self.width / self.total(len(points))
        return squares.mean()

    def evaluate(self) -> Mapping[str, float]:
        points, targets = self.shard(self.points), self.shard(self.targets)
        squares = self.total(nn.functional.mse_loss(self.model(points), targets, reduction="sum"))
        first = next(self.model.parameters())
        left = self.loader.positions["left"]
        return {"loss": squares.item() / len(self.points), "weight": first.norm().item(), "left": left}

    def die_if_told(self) -> None:
        if self.width == 1 or self.steps < 5 or "deaths" not in self.settings:
            return
        death = Path(self.settings["deaths"]) / str(self.rank)
        if death.exists():
            death.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


class LightSmooth(Light, Smooth):
    """The same network, in a process that is up sooner."""

    def new_optimizer(self) -> Descent:
        return Descent(self.model.parameters(), lr=0.01)

    def setup(self, hp: Mapping[str, Any]) -> None:
        rest = dict(hp)
        self.optimizer.lr = rest.pop("lr")
        super().setup(rest)
