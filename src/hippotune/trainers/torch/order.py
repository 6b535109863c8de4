"""The order of training samples, and the place in it: all that there is to a loader's state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hippotune.trainers.parallel.share import Share


class Key(NamedTuple):
    """One batch: its place, and the indices of its samples."""

    epoch: int
    position: int
    indices: list[int]


@dataclass
class Order:
    """The order of the samples, and the place in it."""

    samples: int
    seed: int
    shuffle: bool
    drop_last: bool
    batch_size: int = 1
    epoch: int = 0
    position: int = 0

    def __iter__(self) -> Iterator[Key]:
        """Yield the batches that are left of the epoch."""
        epoch, size, indices = self.epoch, self.batch_size, self._indices()
        end = self.samples - (size - 1 if self.drop_last else 0)
        for position in range(self.position, end, size):
            yield Key(epoch, position, indices[position : position + size].tolist())

    def is_over(self) -> bool:
        """Return whether there is no batch left of the epoch."""
        left = self.samples - self.position
        return left == 0 or (self.drop_last and left < self.batch_size)

    def _indices(self) -> np.ndarray[Any, Any]:
        if not self.shuffle:
            return np.arange(self.samples)
        # RandomState is frozen: the same order in every version of NumPy.
        words = [self.seed & 0xFFFFFFFF, self.seed >> 32 & 0xFFFFFFFF, self.epoch]
        return np.random.RandomState(words).permutation(self.samples)


class Keys:
    """The batches that are left of an epoch, or of each of them the part that is one rank's."""

    def __init__(self, order: Order) -> None:
        self.share: Share | None = None
        self._order = order

    def __iter__(self) -> Iterator[Key]:
        """Yield what is left of the epoch."""
        share = self.share
        if share is None:
            yield from self._order
            return
        for key in self._order:
            start, end = share.even_bounds(len(key.indices))
            yield key._replace(indices=key.indices[start:end])
