"""A small convolutional network on the 1,797 digits of scikit-learn: 24 trials by successive halving.

Trials differ in how the learning rate, the batch size and the momentum go over 120 epochs. Most of them begin
alike, and what begins alike is trained once. About a minute on two cores.

    python examples/digits.py
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.utils.data import TensorDataset

import hippotune as hippo
from hippotune import Constant, Cosine, Exponential, MultiStep, Piecewise, Warmup


class Digits(hippo.TorchTrainer):
    def prepare(self) -> None:  # once in a process, for all trials
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        images = torch.tensor(pixels, dtype=torch.float32, device=self.device).reshape(-1, 1, 8, 8) / 16
        targets = torch.tensor(labels, device=self.device)
        self.validation = images[1400:], targets[1400:]
        self.training = TensorDataset(images[:1400], targets[:1400])

    def build(self) -> None:  # at the start of every trial
        self.loader = hippo.Loader(self.training, 128, seed=self.seed)
        self.model = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(256, 10),
        ).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

    # setup() is TorchTrainer's: it knows lr, momentum and bs.

    def train(self) -> None:
        for images, targets in self.loader:
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(images), targets).backward()
            self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        images, targets = self.validation
        scores = self.model(images)
        return {
            "val_acc": (scores.argmax(1) == targets).float().mean().item(),
            "val_loss": nn.functional.cross_entropy(scores, targets).item(),
        }


space = hippo.Grid(
    {
        "lr": [
            Constant(0.1),
            MultiStep(0.1, [60], 0.1),
            MultiStep(0.1, [60, 90], 0.1),
            Exponential(0.1, 0.97),
            Warmup(5, Cosine(0.1, 115)),
            Warmup(5, Exponential(0.1, 0.97)),
        ],
        "bs": [128, MultiStep(128, [40], 2)],
        "momentum": [0.9, Piecewise([0.9, 0.95], [40])],
    }
)
study = hippo.Study("digits", Digits, home=".hippo", executor=hippo.Local(workers=2))
tuner = hippo.SuccessiveHalving(space, metric="val_acc", mode="max", min_steps=15, max_steps=120, reduction=4)

if __name__ == "__main__":
    report = study.tune(tuner)
    print(report)
