"""Trainers that several workers can train together, with all that depends on the whole batch."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from hippotune.trainers.torch.loader import Loader
from hippotune.trainers.torch.trainer import TorchTrainer
from trainers.light import Descent

torch.set_num_threads(1)  # the models are too small for more

SAMPLES = 23  # of which 8 at a time leave 7, which two cannot share
OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "plain": lambda parameters: Descent(parameters, lr=0.05),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}


# What ranks sum up that do not sum up the same.
UNLIKE = {
    "shapes": [torch.ones(2), torch.ones(3)],
    "large shapes": [torch.ones(5000), torch.ones(7000)],
    "types": [torch.ones(2), torch.ones(2, dtype=torch.float64)],
}


class Shaken(Dataset[Any]):
    """Samples with augmentation."""

    def __init__(self, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(1)
        self.images = torch.rand(SAMPLES, 8, 6, generator=generator, dtype=dtype)
        self.labels = torch.randint(0, 3, (SAMPLES,), generator=generator)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.images[index] + 0.1 * torch.randn_like(self.images[index]), self.labels[index]


class Convolutions(nn.Sequential):
    """Batch norm of images and of vectors, with dropout of every sort."""

    def __init__(self) -> None:
        super().__init__(
            nn.Unflatten(1, (1, 8)),
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Dropout2d(0.2),
            nn.Conv2d(4, 4, 3, bias=False),
            nn.BatchNorm2d(4, momentum=None),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(32, 8),
            nn.BatchNorm1d(8, affine=False),
            nn.SELU(),
            nn.AlphaDropout(0.1),
            nn.Linear(8, 3),
        )


class Attention(nn.Module):
    """A transformer with dropout everywhere, noise for every sample, and tokens as samples."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(6, 8)
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True), 2
        )
        self.weighted = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.embed(images)
        if self.training:
            shift = torch.rand(len(images), 1, 8, dtype=tokens.dtype)
            tokens = tokens + 0.1 * (torch.randn_like(tokens) + shift + torch.zeros_like(tokens).normal_())
        tokens = self.layers(tokens)
        tokens, _ = self.weighted(tokens, tokens, tokens)
        tokens = nn.functional.dropout(tokens.reshape(-1, 8), 0.1, self.training).view_as(tokens)
        scores: Tensor = self.head(tokens.mean(1))
        return scores


class Recurrence(nn.Module):
    """Sequences with their steps first, and a layer that few samples use: often on one rank alone."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(6, 8)
        self.seldom = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, images: Tensor) -> Tensor:
        if self.training:  # in turns frozen and thawed
            self.head.requires_grad_(not self.head.weight.requires_grad)
        output, _ = self.cell(nn.functional.dropout(images.transpose(0, 1).contiguous(), 0.2, self.training))
        last = output[-1]
        chosen = images.mean((1, 2)) > 0.56
        if chosen.any():
            last = last.index_put((chosen,), self.seldom(last[chosen]))
        scores: Tensor = self.head(last)
        return scores


MODELS: dict[str, Any] = {"convolutions": Convolutions, "attention": Attention, "recurrence": Recurrence}


class Together(TorchTrainer):
    """A step is three batches: an epoch. `fault` says what goes wrong, and in which rank."""

    def build(self) -> None:
        self.dtype = torch.float64 if self.settings.get("double", True) else torch.float32
        self.data = Shaken(self.dtype)
        self.loader = Loader(self.data, 8, seed=self.seed, num_workers=self.settings.get("num_workers", 0))
        self.seen = 0
        self.steps = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        rest = dict(hp)
        if "model" in rest:
            torch.manual_seed(5)
            self.model = MODELS[rest.pop("model")]().to(self.dtype)
        if "optimizer" in rest:
            self.optimizer = OPTIMIZERS[rest.pop("optimizer")](self.model.parameters())
        self.fault = rest.pop("fault", getattr(self, "fault", "none"))
        self.wrapped = bool(rest.pop("wrapped", getattr(self, "wrapped", False)))
        self.pieces = int(rest.pop("pieces", getattr(self, "pieces", 1)))
        super().setup(rest)

    def train(self) -> None:
        self.steps += 1
        model = self.parallel(self.model) if self.wrapped else self.model
        if self.fault == "keep":
            self.kept = model
        for batch, (images, labels) in enumerate(self.loader):
            self.fail_in("train")
            if self.skips(batch):
                continue
            if self.fault in UNLIKE:
                self.total(UNLIKE[self.fault][self.rank])
            self.optimizer.zero_grad()
            self.seen += self.total(len(images))
            for _ in range(self.pieces):
                loss = nn.functional.cross_entropy(model(images), labels) / self.pieces
                loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
            self.optimizer.step()
        self.log(seen=self.seen, rank=self.rank)

    def evaluate(self) -> Mapping[str, float]:
        self.fail_in("evaluate")
        images, labels = self.shard(self.data.images), self.shard(self.data.labels)
        scores = self.model(images)
        loss = self.total(nn.functional.cross_entropy(scores, labels, reduction="sum"))
        hits = self.total((scores.argmax(1) == labels).sum())
        everything = self.total(len(self.shard(range(SAMPLES))))
        self.fail_in("measure")
        return {"loss": loss.item() / everything, "hits": hits, "seen": self.seen, "width": self.width}

    def skips(self, batch: int) -> bool:
        """Each rank may have a batch that it does not train, in every step but the first: ``skip:1,2``."""
        place, _, batches = self.fault.partition(":")
        return place == "skip" and self.steps > 1 < self.width and batches.split(",")[self.rank] == str(batch)

    def fail_in(self, method: str) -> None:
        place, _, fault = self.fault.partition(" ")
        if place != f"{method}:{self.rank}" or self.width == 1 or self.steps < 2:
            return
        if fault == "total":
            self.total(1)
            return
        if fault == "memory":
            raise MemoryError("no more")
        if fault == "overfill":
            Path("/dev/full").write_bytes(b"more")
        if fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ArithmeticError(f"{fault} by rank {self.rank}")
