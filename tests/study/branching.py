"""A trainer for the tests of branches."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.utils.data import TensorDataset

import hippotune as hippo


class Mixed(hippo.TorchTrainer):
    """A line fitted to two sources, that differ; every step is two batches."""

    def prepare(self) -> None:
        x = torch.linspace(-1, 1, 40).unsqueeze(1)
        self.sources = {"up": TensorDataset(x, 2 * x), "down": TensorDataset(x, -x)}

    def build(self) -> None:
        self.model = nn.Linear(1, 1)
        self.tied = nn.Linear(1, 1, bias=False)
        self.tied.weight = self.model.weight
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = hippo.Loader(self.sources, 4, seed=self.seed, mixture="up", mixtures={"up": {"up": 1}})

    def train(self) -> None:
        for x, y in self.loader.batches(2):
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        return {"slope": self.model.weight.item(), "offset": self.model.bias.item()}
