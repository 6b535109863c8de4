"""An image classifier of Lightning on the 1,797 digits of scikit-learn: 12 trials of 16 epochs.

The LightningModule and the LightningDataModule are as in any Lightning project; the schedule is gone from
``configure_optimizers``, because it is a hyper-parameter. About a minute on one core.

    python examples/lightning_digits.py
"""

from __future__ import annotations

from typing import Any

import lightning as L
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import hippotune as hippo
from hippotune import Constant, Cosine, MultiStep, Warmup


class DigitsData(L.LightningDataModule):
    def setup(self, stage: str) -> None:
        pixels, labels = load_digits(return_X_y=True)
        images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
        targets = torch.tensor(labels)
        self.training = TensorDataset(images[:1400], targets[:1400])
        self.validation = TensorDataset(images[1400:], targets[1400:])

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.training, batch_size=64, shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.validation, batch_size=256)


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(256, 10),
        )

    def forward(self, images: Tensor) -> Any:
        return self.net(images)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        images, targets = batch
        loss = nn.functional.cross_entropy(self(images), targets)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        images, targets = batch
        scores = self(images)
        self.log("val_loss", nn.functional.cross_entropy(scores, targets))
        self.log("val_acc", (scores.argmax(1) == targets).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)


class Digits(hippo.adapters.LightningTrainer):
    def prepare(self) -> None:
        self.datamodule = self.set_up(DigitsData())

    def build(self) -> None:
        self.module = Classifier()

    def make_trainer(self) -> L.Trainer:
        return self.lightning_trainer(gradient_clip_val=1.0)


space = hippo.Grid(
    {
        "lr": [Constant(0.1), MultiStep(0.1, [8], 0.1), Warmup(2, Cosine(0.1, 14))],
        "bs": [64, MultiStep(64, [4], 2)],
        "weight_decay": [1e-4, 1e-3],
    }
)
study = hippo.Study("lightning-digits", Digits, home=".hippo", executor=hippo.Local(workers=1, threads=1))
tuner = hippo.SuccessiveHalving(space, metric="val_acc", mode="max", min_steps=4, max_steps=16, reduction=2)

if __name__ == "__main__":
    print(study.tune(tuner))
