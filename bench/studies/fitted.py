"""A network as users write it, for `noisy.py`: it is trained by one worker or by two."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import nn
from torch.utils.data import TensorDataset

import hippotune as hippo


class Fitted(hippo.TorchTrainer):
    """Fits a curve, in double precision, with dropout: widths differ in the last digits only."""

    def build(self) -> None:
        torch.manual_seed(self.seed)
        points = torch.linspace(-2, 2, 256, dtype=torch.float64).unsqueeze(1)
        self.points, self.targets = points, torch.sin(2 * points)
        self.loader = hippo.Loader(TensorDataset(points, self.targets), batch_size=64, seed=self.seed)
        layers = nn.Linear(1, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 1)
        self.model = nn.Sequential(*layers).double()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def train(self) -> None:
        self.model.train()
        for points, targets in self.loader:
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(points), targets).backward()
            self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        self.model.eval()
        points, targets = self.shard(self.points), self.shard(self.targets)
        with torch.no_grad():
            squares = self.total(nn.functional.mse_loss(self.model(points), targets, reduction="sum"))
        return {"loss": squares.item() / len(self.points)}

    def digest(self) -> str:
        """Return what stands for the state."""
        weights = [weight.detach().numpy().tobytes() for weight in self.model.parameters()]
        return hashlib.sha256(b"".join(weights)).hexdigest()
