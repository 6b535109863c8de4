"""The order of training samples, and the place in it: all that there is to a loader's state."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from hippotune.trainers.parallel.share import Share

_BLOCK = 1024
"""How many choices between sources are drawn at once."""


class Origin(NamedTuple):
    """What a sample's own random numbers are seeded by, beside its index, counted from `first` on."""

    seed: int
    epoch: int
    first: int = 0


class Key(NamedTuple):
    """One batch: its origin and position, and the indices and origins of its samples."""

    origin: Origin
    position: int
    indices: list[int]
    origins: list[Origin]

    def part(self, share: Share) -> Key:
        """Return a rank's part of the batch."""
        start, end = share.even_bounds(len(self.indices))
        return self._replace(indices=self.indices[start:end], origins=self.origins[start:end])


@dataclass
class SampleOrder:
    """The order of one dataset, and the place in it: a function of (seed, epoch)."""

    samples: int
    seed: int
    shuffle: bool
    drop_last: bool
    batch_size: int = 1
    epoch: int = 0
    position: int = 0
    next_seed: int = field(init=False)

    def __post_init__(self) -> None:
        self.next_seed = self.seed

    def __iter__(self) -> Iterator[Key]:
        """Yield the batches that are left of the epoch."""
        size, origin = self.batch_size, Origin(self.seed, self.epoch)
        indices = _indices(self.samples, self.seed, self.epoch, self.shuffle)
        end = self.samples - (size - 1 if self.drop_last else 0)
        for position in range(self.position, end, size):
            batch = indices[position : position + size].tolist()
            yield Key(origin, position, batch, [origin] * len(batch))

    def advance(self) -> int:
        """Go on by a batch, within the epoch."""
        before = self.position
        self.position = min(before + self.batch_size, self.samples)
        return self.position - before

    def place(self) -> tuple[int, int]:
        """Return the epoch and the position."""
        return self.epoch, self.position

    def ends_epoch(self) -> bool:
        """Begin the next epoch where there is no batch left of this one; return whether that was so."""
        left = self.samples - self.position
        if left and not (self.drop_last and left < self.batch_size):
            return False
        self.epoch, self.position, self.seed = self.epoch + 1, 0, self.next_seed
        return True

    def reseed(self, seed: int) -> None:
        """Set the seed of the next epoch, and of this one where it has not begun."""
        self.next_seed = seed
        if self.position == 0:
            self.seed = seed


@dataclass
class MixedOrder:
    """The order of samples from several sources, and the place in it.

    The n-th sample of all comes from a source that is a function of (seed, n) and of the weights in force.
    Within a source, the order is a function of (seed, source, position). So a source moves only where it is
    chosen, and nothing depends on how samples are put into batches.

    Attributes
    ----------
    sizes : dict[str, int]
        How many samples each source has.
    weights : dict[str, float]
        The chance of each source, from the next sample on.
    count : int
        How many samples were handed out.
    positions : dict[str, int]
        How many of them were of each source, over all of its epochs.
    seeds : dict[str, int]
        The seed of each source's present epoch.
    """

    sizes: dict[str, int]
    seed: int
    shuffle: bool
    weights: dict[str, float]
    batch_size: int = 1
    count: int = 0
    positions: dict[str, int] = field(init=False)
    seeds: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.positions = dict.fromkeys(self.sizes, 0)
        self.seeds = dict.fromkeys(self.sizes, self.seed)

    def __iter__(self) -> Iterator[Key]:
        """Yield the batches to come, for ever."""
        ahead = replace(self)
        ahead.positions, ahead.seeds = dict(self.positions), dict(self.seeds)
        first = dict(zip(self.sizes, accumulate(self.sizes.values(), initial=0), strict=False))
        orders: dict[str, tuple[int, np.ndarray[Any, Any]]] = {}
        while True:
            key = Key(Origin(self.seed, 0), ahead.count, [], [])
            for name in ahead._choices():
                epoch, place = divmod(ahead.positions[name], self.sizes[name])
                ahead._move(name)
                seed = _named(ahead.seeds[name], name)
                if name not in orders or orders[name][0] != epoch:
                    orders[name] = epoch, _indices(self.sizes[name], seed, epoch, self.shuffle)
                key.indices.append(first[name] + int(orders[name][1][place]))
                key.origins.append(Origin(seed, epoch, first[name]))
            ahead.count += self.batch_size
            yield key

    def advance(self) -> int:
        """Go on by a batch."""
        for name in self._choices():
            self._move(name)
        self.count += self.batch_size
        return self.batch_size

    def place(self) -> tuple[int, int]:
        """Return how many samples were handed out, as the place in an epoch without an end."""
        return 0, self.count

    def reseed(self, seed: int) -> None:
        """Set the seed of choices from now on, and of each source from its next epoch on."""
        self.seed = seed

    def _choices(self) -> list[str]:
        """Return the sources of the next batch's samples."""
        names = [name for name in self.sizes if self.weights.get(name)]
        ends = np.cumsum([self.weights[name] for name in names])
        last = self.count + self.batch_size
        blocks = [
            _uniform(self.seed, block) for block in range(self.count // _BLOCK, (last - 1) // _BLOCK + 1)
        ]
        start = self.count % _BLOCK
        drawn = np.concatenate(blocks)[start : start + self.batch_size] * ends[-1]
        return [names[number] for number in np.searchsorted(ends[:-1], drawn, side="right")]

    def _move(self, name: str) -> None:
        """Go on by a sample of a source; an epoch of it has the seed that is in force when it begins."""
        if self.positions[name] % self.sizes[name] == 0:
            self.seeds[name] = self.seed
        self.positions[name] += 1


class Keys:
    """The batches to come, or of each of them the part that is one rank's."""

    def __init__(self, order: SampleOrder | MixedOrder) -> None:
        self.share: Share | None = None
        self._order = order

    def __iter__(self) -> Iterator[Key]:
        """Yield them, as far as they are known."""
        share = self.share
        return iter(self._order) if share is None else (key.part(share) for key in self._order)


def _indices(samples: int, seed: int, epoch: int, shuffle: bool) -> np.ndarray[Any, Any]:
    return _frozen(seed, epoch).permutation(samples) if shuffle else np.arange(samples)


@lru_cache(maxsize=4)
def _uniform(seed: int, block: int) -> np.ndarray[Any, Any]:
    """Return the block of numbers in [0, 1) that choose between sources."""
    return _frozen(_named(seed, ""), block).random_sample(_BLOCK)


def _frozen(seed: int, number: int) -> np.random.RandomState:
    """Return a generator that draws the same in every version of NumPy."""
    return np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, number])


def _named(seed: int, name: str) -> int:
    """Return 64 bits that depend on a seed and a name, the same on every machine."""
    digest = hashlib.blake2b(struct.pack("<Q", seed % 2**64) + name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
