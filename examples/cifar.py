"""A residual network on CIFAR-10, with the schedules of the Hippo paper: successive halving over 120 epochs.

It reads the folder that https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz unpacks to. Made for GPUs.

    python examples/cifar.py --data cifar-10-batches-py --depth 56
"""

from __future__ import annotations

import argparse
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import hippotune as hippo
from hippotune import CosineRestarts, Cyclic, Exponential, MultiStep, Piecewise, Warmup

MEAN = torch.tensor([0.4914, 0.4822, 0.4465])
DEVIATION = torch.tensor([0.2470, 0.2435, 0.2616])


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(inplace=True),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            nn.BatchNorm2d(outside),
        )
        self.stride = stride
        self.added = outside - inside

    def forward(self, images: Tensor) -> Tensor:
        around = images[:, :, :: self.stride, :: self.stride]
        around = nn.functional.pad(around, (0, 0, 0, 0, 0, self.added))
        return nn.functional.relu(self.way(images) + around)


def residual_network(depth: int) -> nn.Module:
    """Return the ResNet for CIFAR of a depth that is 6n + 2: 20, 32, 44, 56, 110."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    width = 16
    for outside in (16, 32, 64):
        for _ in range((depth - 2) // 6):
            layers.append(Block(width, outside, stride=1 if width == outside else 2))
            width = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class OnlyArrays(pickle.Unpickler):
    """Reads pickled NumPy arrays, and nothing that could run code."""

    allowed = frozenset({("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")})

    def find_class(self, module: str, name: str) -> Any:
        is_array = name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray")
        if not is_array and (module, name) not in self.allowed:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a file of images")
        return super().find_class(module, name)


def read_images(folder: Path, names: list[str]) -> TensorDataset:
    images, labels = [], []
    for name in names:
        with (folder / name).open("rb") as file:
            content = OnlyArrays(file, encoding="bytes").load()
        images.append(torch.tensor(content[b"data"]).reshape(-1, 3, 32, 32))
        labels += content[b"labels"]
    return TensorDataset(torch.cat(images), torch.tensor(labels))


def augmented(images: Tensor, cutout: int) -> Tensor:
    """Flip, shift by up to four pixels and cut a square out, for each image by chance."""
    count, _, height, width = images.shape
    flipped = torch.where(torch.rand(count, 1, 1, 1, device=images.device) < 0.5, images.flip(3), images)
    padded = nn.functional.pad(flipped, (4, 4, 4, 4))
    rows = torch.arange(height, device=images.device) + torch.randint(0, 9, (count, 1), device=images.device)
    columns = torch.arange(width, device=images.device) + torch.randint(
        0, 9, (count, 1), device=images.device
    )
    number = torch.arange(count, device=images.device)[:, None, None]
    shifted = padded.permute(0, 2, 3, 1)[number, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    holes = [
        (
            torch.arange(size, device=images.device)
            - torch.randint(0, size, (count, 1), device=images.device)
        ).abs()
        < cutout / 2
        for size in (height, width)
    ]
    return shifted * ~(holes[0][:, None, :, None] & holes[1][:, None, None, :])


class Cifar(hippo.TorchTrainer):
    def prepare(self) -> None:
        folder = Path(self.settings["data"])
        self.training = read_images(folder, [f"data_batch_{number}" for number in range(1, 6)])
        self.test = read_images(folder, ["test_batch"])

    def build(self) -> None:
        pinned = self.device.type == "cuda"
        self.loader = hippo.Loader(self.training, 128, seed=self.seed, pin_memory=pinned)
        self.model = residual_network(self.settings["depth"]).to(self.device)

    def setup(self, hp: Mapping[str, Any]) -> None:
        rest = dict(hp)
        if "optimizer" in rest:
            kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[rest.pop("optimizer")]
            self.optimizer = kind(self.model.parameters(), lr=0.1)
        if "cutout" in rest:
            self.cutout = rest.pop("cutout")
        super().setup(rest)

    def train(self) -> None:
        for images, labels in self.loader:
            self.optimizer.zero_grad()
            scores = self.model(augmented(self.normal(images), self.cutout))
            nn.functional.cross_entropy(scores, labels.to(self.device)).backward()
            self.optimizer.step()

    def evaluate(self) -> Mapping[str, float]:
        images, labels = self.test.tensors
        scores = torch.cat([self.model(self.normal(part)) for part in images.split(500)])
        return {"test_acc": (scores.argmax(1) == labels.to(self.device)).float().mean().item()}

    def normal(self, images: Tensor) -> Tensor:
        images = images.to(self.device, non_blocking=True).float() / 255
        mean, deviation = MEAN.to(self.device), DEVIATION.to(self.device)
        return (images - mean[:, None, None]) / deviation[:, None, None]


space = hippo.Grid(
    {
        "lr": [
            MultiStep(0.1, [90], 0.1),
            MultiStep(0.1, [60, 90], 0.1),
            Warmup(5, MultiStep(0.1, [85], 0.1)),
            Warmup(5, MultiStep(0.1, [55, 85], 0.1)),
            Warmup(5, Exponential(0.1, 0.95)),
            Warmup(5, CosineRestarts(0.1, 20)),
            Cyclic(0.001, 0.1, 20),
        ],
        "bs": [128, MultiStep(128, [70], 2)],
        "momentum": [0.9, Piecewise([0.7, 0.8, 0.9], [40, 80])],
        "weight_decay": [1e-4, 1e-3],
        "optimizer": ["sgd", "adam"],
        "cutout": [16, Piecewise([16, 18, 20], [80, 100])],
    }
)
parser = argparse.ArgumentParser(description="A residual network on CIFAR-10, by successive halving.")
folder = os.environ.get("CIFAR10", "cifar-10-batches-py")
parser.add_argument("--data", default=folder, help="the folder with data_batch_1 … 5 and test_batch")
parser.add_argument("--depth", type=int, default=20, help="of the network: 20, 32, 44, 56 or 110")
parser.add_argument("--workers", type=int, default=max(torch.cuda.device_count(), 1), help="one for each GPU")
given, _ = parser.parse_known_args()
study = hippo.Study(
    "cifar",
    Cifar,
    home=".hippo",
    settings={"data": given.data, "depth": given.depth},
    executor=hippo.Local(workers=given.workers),
)
tuner = hippo.SuccessiveHalving(
    space, metric="test_acc", mode="max", min_steps=15, max_steps=120, reduction=4
)

if __name__ == "__main__":
    if not Path(given.data).is_dir():
        parser.error(f"there is no folder {given.data}; unpack cifar-10-python.tar.gz and say where: --data")
    report = study.tune(tuner)
    print(report)
