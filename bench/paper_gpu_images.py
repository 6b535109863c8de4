"""The image networks of the Hippo paper on CIFAR-10: ResNet56 and MobileNetV2. A step is an epoch.

The folder of the setting "data" is cifar-10-batches-py, as its authors distribute it. What the paper leaves
open: images are moved by up to four pixels and flipped, as is usual; MobileNetV2 halves them three times
only, as is usual for small images.
"""

from __future__ import annotations

import pickle
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import hippotune as hippo

TRAINING = tuple(f"data_batch_{number}" for number in range(1, 6))
VALIDATION = ("test_batch",)
OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD, "momentum-sgd": torch.optim.SGD}


class ImageTrainer(hippo.TorchTrainer):  # type: ignore[misc]
    """A network on CIFAR-10."""

    @abstractmethod
    def network(self) -> nn.Module:
        """Return a new network."""

    def prepare(self) -> None:
        folder = Path(self.settings["data"])
        self.training, self.validation = read(folder, TRAINING), read(folder, VALIDATION)

    def build(self) -> None:
        self.model = self.network().to(self.device)
        self.loader = hippo.Loader(self.training, 1, seed=self.seed)  # its batch size comes with setup()
        self.cutout = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        rest = dict(hp)
        if "optimizer" in rest:  # before step 0, with everything else
            self.optimizer = OPTIMIZERS[rest.pop("optimizer")](self.model.parameters(), lr=0.1)
        self.cutout = int(rest.pop("cutout", self.cutout))
        super().setup(rest)

    def train(self) -> None:
        self.model.train()
        for images, labels in self.loader:
            found = self.model(augmented(scaled(images.to(self.device)), self.cutout))
            functional.cross_entropy(found, labels.to(self.device)).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.optimizer.zero_grad()

    def evaluate(self) -> dict[str, float]:
        images, labels = self.validation.tensors
        found = [self.model(scaled(part.to(self.device))).argmax(1).cpu() for part in images.split(1000)]
        return {"accuracy": (torch.cat(found) == labels).float().mean().item()}


class ResNet56(ImageTrainer):
    """27 blocks of two convolutions, a third of them at each size."""

    blocks = 9

    def network(self) -> nn.Module:
        widths = [width for width in (16, 32, 64) for _ in range(self.blocks)]
        blocks = [Block(before, after) for before, after in zip([16, *widths], widths, strict=False)]
        return nn.Sequential(*convolved(3, 16), nn.ReLU(), *blocks, *classifier(64))


class MobileNetV2(ImageTrainer):
    """17 inverted blocks."""

    blocks = (
        (1, 16, 1, 1),
        (6, 24, 2, 1),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    """How many times wider inside, outputs, how many blocks, and the stride of the first of them."""

    def network(self) -> nn.Module:
        width, blocks = 32, []
        for wider, outputs, count, stride in self.blocks:
            for number in range(count):
                blocks.append(Inverted(width, outputs, wider, stride if number == 0 else 1))
                width = outputs
        begin, end = [*convolved(3, 32), nn.ReLU6()], [*convolved(width, 1280, 1), nn.ReLU6()]
        return nn.Sequential(*begin, *blocks, *end, *classifier(1280))


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.stride, self.more = 1 if inputs == outputs else 2, outputs - inputs
        self.inside = nn.Sequential(
            *convolved(inputs, outputs, stride=self.stride), nn.ReLU(), *convolved(outputs, outputs)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        around = images[:, :, :: self.stride, :: self.stride]
        around = functional.pad(around, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))
        return functional.relu(self.inside(images) + around)


class Inverted(nn.Module):
    """Wider, a convolution of each channel by itself, narrower; and a way around where shapes allow it."""

    def __init__(self, inputs: int, outputs: int, wider: int, stride: int) -> None:
        super().__init__()
        inner = inputs * wider
        widened = [*convolved(inputs, inner, 1), nn.ReLU6()] if wider > 1 else []
        middle = [*convolved(inner, inner, stride=stride, groups=inner), nn.ReLU6()]
        self.inside = nn.Sequential(*widened, *middle, *convolved(inner, outputs, 1))
        self.has_way_around = stride == 1 and inputs == outputs

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.inside(images)
        return found + images if self.has_way_around else found


def convolved(inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """Return a convolution and its batch norm."""
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(outputs)]


def classifier(inputs: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10)]


def augmented(images: torch.Tensor, cutout: int) -> torch.Tensor:
    """Return images moved by up to four pixels, flipped or not, and each without a square of `cutout`."""
    count, size = len(images), images.shape[-1]
    drawn = torch.rand(count, 5).to(images.device)
    top, left, row, column = (drawn[:, :4] * torch.tensor([9, 9, size, size]).to(drawn)).long().T[..., None]
    places = torch.arange(size, device=images.device)
    rows, columns = top + places, left + torch.where(drawn[:, 4:] < 0.5, places.flip(0), places)
    padded = functional.pad(images, (4, 4, 4, 4))
    each = torch.arange(count, device=images.device)[:, None, None]
    moved = padded[each, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    inside = [(places >= at - cutout // 2) & (places < at - cutout // 2 + cutout) for at in (row, column)]
    return moved.masked_fill(inside[0][:, None, :, None] & inside[1][:, None, None, :], 0.0)


def scaled(images: torch.Tensor) -> torch.Tensor:
    return (images.float() / 255 - 0.47) * 4


def read(folder: Path, files: tuple[str, ...]) -> TensorDataset:
    """Return images, as bytes, and their labels."""
    batches = [pickle.loads((folder / name).read_bytes(), encoding="bytes") for name in files]
    images = np.concatenate([batch[b"data"] for batch in batches]).reshape(-1, 3, 32, 32)
    labels = torch.tensor([label for batch in batches for label in batch[b"labels"]])
    return TensorDataset(torch.from_numpy(images), labels)
