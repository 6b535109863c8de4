"""A trainer on torch passes the check of exactness: apart from the others, whose processes need no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

import hippotune as hippo
from hippotune.testing import check_exact

CONFIG = {"lr": hippo.MultiStep(0.5, [2], 0.1), "bs": hippo.Piecewise([4, 6], [1])}


class Network(hippo.TorchTrainer):
    """Exact: a model inside of another object, gradients that are kept, a loader, a scheduler, a hook."""

    def prepare(self) -> None:
        self.data = torch.utils.data.TensorDataset(torch.randn(12, 3), torch.randn(12, 1))

    def build(self) -> None:
        self.loader = hippo.Loader(self.data, 4, seed=self.seed)
        self.agent = _Agent()
        self.optimizer = torch.optim.Adam(self.agent.net.parameters(), lr=0.1)
        self.optimizer.register_step_post_hook(_count_step)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)

    def train(self) -> None:
        for x, y in self.loader.batches(2):
            nn.functional.mse_loss(self.agent.net(x), y).backward()
            self.optimizer.step()
            self.agent.steps += self.optimizer.defaults["counted"]
        self.schedule.step()
        if self.agent.steps % 3 == 0:
            self.optimizer.zero_grad()

    def evaluate(self) -> Mapping[str, float]:
        x, y = self.data.tensors
        return {"loss": nn.functional.mse_loss(self.agent.net(x), y).item() + self.agent.steps}


class _Agent:
    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Linear(4, 1))
        self.steps = 0


def _count_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    optimizer.defaults["counted"] = optimizer.defaults.get("counted", 0) + 1


def test_a_trainer_on_torch_passes() -> None:
    assert check_exact(Network, CONFIG, 3, quick=True).cuts == 2
