"""Batches, prepared by torch's DataLoader in this process or in worker processes.

A batch is a function of its key, the dataset and the seed: random numbers that are drawn while a sample is
prepared are seeded by (seed, epoch, index), and the generators of the training are left alone.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    Subset,
    TensorDataset,
    default_collate,
    get_worker_info,
)

from hippotune.trainers import seeding
from hippotune.trainers.parallel.share import Share
from hippotune.trainers.state import walk
from hippotune.trainers.torch.order import Key, Keys, MixedOrder, SampleOrder

_MOST_OBJECTS = 10_000


class Source:
    """The DataLoader that prepares the batches of an order, and what it has prepared."""

    def __init__(self, batches: Batches, order: SampleOrder | MixedOrder, options: dict[str, Any]) -> None:
        self._batches = batches
        self._order = order
        self._keys = Keys(order)
        self.options = options
        self._loader: DataLoader[Any] | None = self._new_loader()
        self._prepared: Iterator[Any] | None = None
        self._mark: object = None

    @property
    def collate_fn(self) -> Callable[[list[Any]], Any] | None:
        """What makes a batch of samples, where it is the user's."""
        return self._batches.collate_fn

    def next_batch(self) -> Any:
        """Return the batch at the order's place."""
        if self._loader is None:
            self._loader = self._new_loader()
        if self._prepared is None:
            self._loader.generator.manual_seed(_mixed(self._order.seed, *self._order.place()))
            self._prepared = iter(self._loader)
        return next(self._prepared)

    def keep_to(self, share: Share | None) -> None:
        """Prepare a rank's part of each batch from now on; whole batches for None."""
        if share != self._keys.share:
            self._keys.share = share
            self.discard()

    def refresh(self) -> None:
        """Start worker processes anew if the dataset has changed: they hold a copy from their start."""
        if self.options.get("num_workers"):
            mark = _mark(self._batches.dataset)
            if mark != self._mark:
                self.close()
                self._mark = mark

    def discard(self) -> None:
        """Throw away what is prepared."""
        self._prepared = None

    def close(self) -> None:
        """End the worker processes."""
        self._prepared = self._loader = None

    def _new_loader(self) -> DataLoader[Any]:
        return DataLoader(
            self._batches,
            batch_size=None,  # a key stands for a whole batch
            sampler=self._keys,
            collate_fn=_as_it_is,
            generator=torch.Generator(),  # otherwise it would draw from the training's
            **self.options,
        )


class Batches(Dataset[Any]):
    """A dataset of whole batches. This is what worker processes get."""

    def __init__(self, dataset: Any, collate_fn: Callable[[list[Any]], Any] | None) -> None:
        self.dataset = dataset
        self.collate_fn = collate_fn

    def __getitem__(self, key: Key) -> Any:
        if self.collate_fn is None and (batch := _cut(self.dataset, key.indices)) is not None:
            return batch
        if get_worker_info() is not None:
            return self._prepare(key)
        with seeding.put_back(devices=False):
            return self._prepare(key)

    def _prepare(self, key: Key) -> Any:
        samples = []
        for index, (seed, epoch, first) in zip(key.indices, key.origins, strict=True):
            _seed(_mixed(seed, epoch, index - first))
            samples.append(self.dataset[index])
        seed, epoch, _ = key.origin
        _seed(_mixed(seed, epoch, -1 - key.position))  # collating may draw too, once a batch
        return (self.collate_fn or default_collate)(samples)


def _cut(dataset: Any, indices: list[int]) -> list[Tensor] | None:
    """Return a batch in one go, where the dataset is nothing but tensors, or subsets or a mixture of them."""
    while type(dataset) is Subset:
        indices = [int(dataset.indices[index]) for index in indices]
        dataset = dataset.dataset
    if type(dataset) is ConcatDataset:
        return _cut_each(dataset, indices)
    if type(dataset) is not TensorDataset:
        return None
    rows = torch.tensor(indices, device="cpu")
    return [tensor[rows.to(tensor.device)] for tensor in dataset.tensors]


def _cut_each(dataset: ConcatDataset[Any], indices: list[int]) -> list[Tensor] | None:
    """Return the samples of several datasets, in the order that was asked for."""
    places: list[int] = []
    parts = []
    first = 0
    for part, end in zip(dataset.datasets, dataset.cumulative_sizes, strict=True):
        own = [place for place, index in enumerate(indices) if first <= index < end]
        if own:
            cut = _cut(part, [indices[place] - first for place in own])
            if cut is None:
                return None
            parts.append(cut)
            places += own
        first = end
    if len({(len(part), *(tensor.dtype for tensor in part)) for part in parts}) != 1:
        return None  # sources of different kinds: to be collated as the user says, or refused
    back = torch.tensor(places, device="cpu").argsort()
    columns = [torch.cat(tensors) for tensors in zip(*parts, strict=True)]
    return [column[back.to(column.device)] for column in columns]


def _mark(dataset: Any) -> object:
    """Return what changes when a dataset changes, contents of tensors and arrays apart."""
    return [
        (path, [_atom(child) for _, child in walk.children(value, reduced=False)])
        for path, value in walk.objects(dataset, most=_MOST_OBJECTS, reduced=False)
    ]


def _atom(value: Any) -> Any:
    return value if type(value) in walk.ATOMS else id(value)


def _mixed(seed: int, epoch: int, index: int) -> int:
    """Return 63 bits that depend on all three, the same on every machine."""
    digest = hashlib.blake2b(struct.pack("<Qqq", seed % 2**64, epoch, index), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _seed(value: int) -> None:
    random.seed(value)
    np.random.seed(value & 0xFFFFFFFF)
    torch.default_generator.manual_seed(value)


def _as_it_is(batch: Any) -> Any:
    return batch
