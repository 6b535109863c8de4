"""Datasets with state, loaders, samplers, and iterators over them that are kept on self."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)

import hippotune as hippo
from exactness_trainers.torch_base import Toy


class _Data(Toy):
    cause = "datasets with state"

    def start(self) -> None:
        self.dataset = self.make_dataset()
        self.loader = self.make_loader()

    def make_dataset(self) -> Any:
        return TensorDataset(self.x, self.y)

    def make_loader(self) -> Any:
        return DataLoader(self.dataset, batch_size=8)

    def train(self) -> None:
        for x, y in self.loader:
            self.learn(x, y)

    def learn(self, x: Tensor, y: Tensor) -> None:
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.model(x), y).backward()
        self.optimizer.step()


class Samples(Dataset[Any]):
    """Samples that subclasses change as they are read."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y, self.reads, self.level = x, y, 0, 1
        self.generator = np.random.default_rng(3)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index] * self.scale(index), self.y[index]

    def scale(self, index: int) -> float:
        self.reads += 1
        return 1 + (self.reads % 50) / 50


class Noisy(Samples):
    def scale(self, index: int) -> float:
        return 1 + float(self.generator.random())


class Curriculum(Samples):
    def __len__(self) -> int:
        return 8 * self.level

    def scale(self, index: int) -> float:
        return 1.0


class Augmented(Samples):
    def scale(self, index: int) -> float:
        return 1 + random.random() + np.random.rand() + torch.rand(()).item()


class Cached(Samples):
    def __init__(self, x: Tensor, y: Tensor) -> None:
        super().__init__(x, y)
        self.cache: dict[int, float] = {}

    def scale(self, index: int) -> float:
        if index not in self.cache:
            self.cache[index] = 1 + random.random()
        return self.cache[index]


class CountsReads(_Data):
    """A dataset that counts how often it is read."""

    def make_dataset(self) -> Any:
        return Samples(self.x, self.y)


class OwnNoise(_Data):
    """A dataset with a random generator of its own."""

    def make_dataset(self) -> Any:
        return Noisy(self.x, self.y)


class CurriculumGrows(_Data):
    """A dataset that gets longer in training."""

    def make_dataset(self) -> Any:
        return Curriculum(self.x, self.y)

    def train(self) -> None:
        super().train()
        self.dataset.level = min(self.dataset.level + 1, 4)


class SharedNoise(_Data):
    """A dataset that draws from the shared generators."""

    def make_dataset(self) -> Any:
        return Augmented(self.x, self.y)


class CachedNoise(_Data):
    """A dataset that draws when a sample is first read, and keeps it."""

    def make_dataset(self) -> Any:
        return Cached(self.x, self.y)

    def make_loader(self) -> Any:
        sampler = RandomSampler(self.dataset, num_samples=8)
        return DataLoader(self.dataset, batch_size=4, sampler=sampler)


class HardSamples(_Data):
    """A list of the samples with the largest losses, which the next step trains on."""

    def start(self) -> None:
        self.hard = torch.arange(8)

    def train(self) -> None:
        self.learn(self.x[self.hard], self.y[self.hard])
        losses = (self.model(self.x) - self.y).pow(2).mean(1).detach()
        self.hard = losses.topk(8).indices


class RelabelledSamples(_Data):
    """Targets of the dataset that training moves."""

    def train(self) -> None:
        super().train()
        with torch.no_grad():
            self.y.lerp_(self.model(self.x), 0.2)


class Shuffled(_Data):
    """A DataLoader that shuffles by torch's shared generator."""

    def make_loader(self) -> Any:
        return DataLoader(self.dataset, batch_size=8, shuffle=True)


class ShuffledByOwn(_Data):
    """A DataLoader with a torch.Generator of its own, which is on self too."""

    def make_loader(self) -> Any:
        self.generator = torch.Generator().manual_seed(3)
        return DataLoader(self.dataset, batch_size=8, shuffle=True, generator=self.generator)


class WeightedSampler(_Data):
    """A sampler whose weights training changes."""

    def make_loader(self) -> Any:
        generator = torch.Generator().manual_seed(3)
        self.sampler = WeightedRandomSampler([1.0] * 32, 16, generator=generator)
        return DataLoader(self.dataset, batch_size=8, sampler=self.sampler)

    def train(self) -> None:
        super().train()
        losses = (self.model(self.x) - self.y).pow(2).mean(1).detach()
        self.sampler.weights = losses.double()


class HippoLoader(_Data):
    """A hippo.Loader that is two batches further after every step."""

    def make_loader(self) -> Any:
        return hippo.Loader(self.dataset, 5, seed=self.seed)

    def train(self) -> None:
        for x, y in self.loader.batches(2):
            self.learn(x, y)


class HippoLoaderResized(HippoLoader):
    """A hippo.Loader whose batch size training changes."""

    def train(self) -> None:
        super().train()
        self.loader.batch_size += 1


class _Live(_Data):
    cause = "live iterators"

    def make_loader(self) -> Any:
        return DataLoader(self.dataset, batch_size=7)

    def start(self) -> None:
        super().start()
        self.batches: Iterator[Any] = iter(self.loader)

    def train(self) -> None:
        try:
            x, y = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            x, y = next(self.batches)
        self.learn(x, y)


class LiveIterator(_Live):
    """An iterator of a DataLoader, in the dataset's order."""


class LiveIteratorShuffled(_Live):
    """An iterator of a DataLoader that shuffles."""

    def make_loader(self) -> Any:
        return DataLoader(self.dataset, batch_size=7, shuffle=True)


class LiveIteratorOwnGenerator(_Live):
    """An iterator of a DataLoader that shuffles by a generator of its own."""

    def make_loader(self) -> Any:
        generator = torch.Generator().manual_seed(3)
        return DataLoader(self.dataset, batch_size=7, shuffle=True, generator=generator)


class LiveIteratorOfTwo(_Live):
    """Iterators of two DataLoaders of different lengths, zipped."""

    expect = "either"
    named = "batches"

    def make_loader(self) -> Any:
        return DataLoader(self.dataset, batch_size=4)

    def start(self) -> None:
        _Data.start(self)
        other = DataLoader(TensorDataset(self.x.flip(0)), batch_size=4, shuffle=True)
        self.batches = zip(self.loader, other, strict=False)

    def train(self) -> None:
        try:
            (x, y), (more,) = next(self.batches)
        except StopIteration:
            return
        self.learn(x + more.mean(0), y)


class LiveHippoIterator(_Live):
    """A generator over a hippo.Loader."""

    expect = "either"
    named = "batches"

    def make_loader(self) -> Any:
        return hippo.Loader(self.dataset, 5, seed=self.seed)


class Stream(IterableDataset[Any]):
    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y, self.at = x, y, 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return self

    def __next__(self) -> tuple[Tensor, Tensor]:
        self.at = (self.at + 1) % 32
        return self.x[self.at], self.y[self.at]


class StreamedSamples(_Data):
    """A stream that keeps its place itself."""

    def make_dataset(self) -> Any:
        return Stream(self.x, self.y)

    def train(self) -> None:
        for _ in range(3):
            x, y = next(self.dataset)
            self.learn(x, y)


class StreamGenerator(_Data):
    """A live iterator over a stream whose __iter__ is a generator."""

    expect = "named"
    named = "batches"

    def start(self) -> None:
        x, y = self.x, self.y

        def stream() -> Iterator[tuple[Tensor, Tensor]]:
            for at in range(1000):
                yield x[at % 32], y[at % 32]

        self.batches = stream()

    def train(self) -> None:
        self.learn(*next(self.batches))


class ReplayedSubset(_Data):
    """A Subset whose indices training rotates, in place."""

    def make_dataset(self) -> Any:
        return Subset(TensorDataset(self.x, self.y), list(range(12)))

    def train(self) -> None:
        super().train()
        self.dataset.indices.append(self.dataset.indices.pop(0) + 12)
        self.dataset.indices[0] = (self.dataset.indices[0] + 7) % 32

    def evaluate(self) -> Mapping[str, float]:
        return super().evaluate()
