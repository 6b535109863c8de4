"""What trainers with torch have in common: a linear model on 32 samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

import hippotune as hippo


def samples(count: int = 32) -> tuple[Tensor, Tensor]:
    """Return inputs and targets, always the same."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, 4, generator=generator)
    return x, torch.randn(count, 3, generator=generator)


class Toy(hippo.TorchTrainer):
    """A linear model, trained by full batches. Subclasses add state that training depends on."""

    expect: ClassVar[str] = "exact"
    cause: ClassVar[str] = ""
    named: ClassVar[str] = ""
    found: ClassVar[str] = ""

    def build(self) -> None:
        self.x, self.y = samples()
        self.model = self.make_model()
        self.optimizer = self.make_optimizer()
        self.start()

    def make_model(self) -> nn.Module:
        return nn.Linear(4, 3)

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.1)

    def start(self) -> None:
        """Make the rest of the state."""

    def train(self) -> None:
        self.fit(self.amount())

    def amount(self) -> float:
        """Change the state, and return the factor of the loss that it says."""
        return 1.0

    def loss(self) -> Tensor:
        return nn.functional.mse_loss(self.model(self.x), self.y)

    def fit(self, factor: float | Tensor = 1.0) -> None:
        self.optimizer.zero_grad()
        (self.loss() * factor).backward()
        self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": self.loss().item()}
