"""A network that is worth training on two cores: much to compute for every number that is exchanged."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import TensorDataset

import hippotune as hippo


class Chain(hippo.TorchTrainer):
    """A small convolutional network on made-up images; smooth, so that rounding stays rounding."""

    def build(self) -> None:
        draw = torch.Generator().manual_seed(7)
        images = torch.randn(2048, 1, 28, 28, generator=draw)
        self.images, self.targets = images[:256], images.mean((1, 2, 3))[:256]
        self.model = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2),
            nn.Tanh(),
            nn.Conv2d(16, 32, 5, padding=2, stride=2),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(32 * 14 * 14, 1),
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.loader = hippo.Loader(TensorDataset(images, images.mean((1, 2, 3))), 256, seed=self.seed)

    def train(self) -> None:
        for images, targets in self.loader.batches(4):
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(images).squeeze(1), targets).backward()
            self.optimizer.step()

    def evaluate(self) -> dict[str, float]:
        return {"loss": nn.functional.mse_loss(self.model(self.images).squeeze(1), self.targets).item()}
