"""A trainer on Lightning that tests train, kill and compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hippotune as hippo
from adapters.common import RATES, X, Y, bits, kill_once
from hippotune import Piecewise

SPACE = {"lr": RATES, "bs": [16, Piecewise([16, 24], [3])]}


class Data(L.LightningDataModule):
    def setup(self, stage: str) -> None:
        x, y = torch.tensor(X, dtype=torch.float32), torch.tensor(Y)
        self.training, self.validation = TensorDataset(x[:100], y[:100]), TensorDataset(x[100:], y[100:])

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.training, batch_size=16, shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.validation, batch_size=64)

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        x, y = batch
        return (x + 0.01 * torch.randn_like(x), y) if self.trainer.training else batch


class Net(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 2))
        self.places: list[tuple[int, int]] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("train_loss", loss, on_epoch=True)
        self.places.append((self.current_epoch, self.global_step))
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("loss", nn.functional.cross_entropy(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


class Average(L.Callback):
    """A callback with a state: it begins in setup, and goes on with every batch."""

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        self.weights = [part.detach().clone() for part in pl_module.parameters()]

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *_: Any) -> None:
        for mean, part in zip(self.weights, pl_module.parameters(), strict=True):
            mean.lerp_(part.detach(), 0.1)


def bits_of(module: L.LightningModule, average: Any) -> float:
    state = [*module.state_dict().values(), *average.weights]
    return bits(torch.cat([part.double().flatten() for part in state]).numpy())


OPTIONS: dict[str, Any] = {"gradient_clip_val": 0.5, "accumulate_grad_batches": 2}


class Lit(hippo.adapters.LightningTrainer):
    def prepare(self) -> None:
        self.datamodule = self.set_up(Data())

    def build(self) -> None:
        self.module = Net()

    def make_trainer(self) -> L.Trainer:
        return self.lightning_trainer(callbacks=[Average()], **OPTIONS)

    def train(self) -> None:
        kill_once(self, self.loader.epoch)
        super().train()

    def evaluate(self) -> Mapping[str, float]:
        return {**self.metrics(), "bits": bits_of(self.module, self.callbacks[0])}
