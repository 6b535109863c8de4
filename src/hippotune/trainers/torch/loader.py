"""Training data in an order that can be gone back to.

What always holds for a `Loader`:

* The order of an epoch is a function of (seed, epoch) alone; the place in it is counted in samples.
* Only batches that were handed out count. What worker processes have prepared beyond them is thrown away
  when the place or the batch size changes.
* A sample is the same in its epoch whatever batch, worker process or run it is prepared in: random numbers
  drawn while it is prepared are seeded by (seed, epoch, index), and the training's own are left alone.
* Where several ranks train together, each is handed its part of the same batches; the place still counts all
  samples. Outside of train() every rank gets whole batches.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np

from hippotune.errors import InvalidInput, MissingExtra

try:
    import torch
    from torch.utils.data import IterableDataset
except ImportError as error:
    raise MissingExtra("Loader needs PyTorch: pip install 'hippotune[torch]'") from error

from hippotune.trainers.parallel.ranks import in_training
from hippotune.trainers.torch.batches import Batches, Source
from hippotune.trainers.torch.order import Order

_ORDER = ("samples", "seed", "shuffle", "drop_last")
_OWN = ("sampler", "batch_sampler", "generator")  # options of a DataLoader that are a Loader's own business


class Loader:
    """Batches of a dataset, for training.

    ``for batch in loader`` goes to the end of the present epoch: through a whole one, if the last was gone
    through. ``for batch in loader.batches(100)`` takes the next 100 batches, over as many epochs as it needs.
    Both go on where the last one stopped. No batch holds samples of two epochs.

    Parameters
    ----------
    dataset
        With ``__len__`` and ``__getitem__``. Random numbers for augmentation are best drawn from the shared
        generators (``random``, ``numpy.random``, torch), which are seeded for every sample. With worker
        processes (``num_workers``) a dataset must not keep a generator or other state that preparing a sample
        changes: each process has a copy.
    batch_size
        Samples in a batch. It may be set to another number at any time; the next batch has it.
    seed
        Usually the trainer's: ``seed=self.seed``.
    shuffle
        Whether each epoch has a new order. Otherwise samples come in the dataset's.
    drop_last
        Whether to leave out the samples at the end of an epoch that do not fill a batch.
    collate_fn, **options
        As for ``torch.utils.data.DataLoader``: num_workers, pin_memory, persistent_workers, …
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        **options: Any,
    ) -> None:
        _check_dataset(dataset, options.get("num_workers", 0))
        if given := [name for name in _OWN if name in options]:
            raise InvalidInput(
                f"a Loader takes no {', '.join(given)}: it keeps an order of its own, made from seed"
            )
        self.dataset = dataset
        self._order = Order(len(dataset), seed, shuffle, drop_last)
        self._order.batch_size = self._checked_batch_size(batch_size)
        self._make_source(collate_fn, options)

    def _make_source(self, collate_fn: Any, options: dict[str, Any]) -> None:
        self._source = Source(Batches(self.dataset, self._order.seed, collate_fn), self._order, options)
        # Worker processes end quickly only where nothing of their iterator is garbage before it is.
        weakref.finalize(self, self._source.close)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was prepared in advance: it is prepared again."""
        made_of = {"collate_fn": self._source.collate_fn, "options": self._source.options}
        return {**vars(self), "_source": made_of}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_source(**state["_source"])

    @property
    def epoch(self) -> int:
        """The number of epochs gone through."""
        return self._order.epoch

    @property
    def position(self) -> int:
        """The number of samples of the present epoch that were handed out."""
        return self._order.position

    @property
    def batch_size(self) -> int:
        """Samples in a batch, from the next one on."""
        return self._order.batch_size

    @batch_size.setter
    def batch_size(self, value: int) -> None:
        size = self._checked_batch_size(value)
        if size != self._order.batch_size:
            self._order.batch_size = size
            self._source.discard()

    def __len__(self) -> int:
        """Return the number of batches in a whole epoch of the present batch size."""
        whole, rest = divmod(self._order.samples, self._order.batch_size)
        return whole + (rest > 0 and not self._order.drop_last)

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches that are left of the present epoch."""
        return LoaderIterator(self, None)

    def batches(self, count: int) -> Iterator[Any]:
        """Yield the next `count` batches."""
        return LoaderIterator(self, count)

    def state_dict(self) -> dict[str, Any]:
        """Return the place and the batch size, and what the order depends on."""
        return dict(vars(self._order))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to the place that `state` was taken at."""
        present = self.state_dict()
        if other := [name for name in _ORDER if state[name] != present[name]]:
            raise InvalidInput(
                "the loader's place was saved for another order: "
                + ", ".join(f"{name} was {state[name]} and is {present[name]} here" for name in other)
            )
        if state != present:
            self._order.epoch, self._order.position = state["epoch"], state["position"]
            self._order.batch_size = state["batch_size"]
            self._source.discard()

    def _begin(self) -> None:
        self._source.refresh()
        self._end_epoch_if_over()

    def _take(self) -> Any:
        ranks = in_training()
        self._source.keep_to(None if ranks is None else ranks.share)
        batch = self._source.next_batch()
        before = self._order.position
        self._order.position = min(before + self._order.batch_size, self._order.samples)
        if ranks is not None:
            ranks.batch.hand_out(id(self), self._order.position - before)
        self._end_epoch_if_over()
        return batch

    def _end_epoch_if_over(self) -> None:
        if self._order.is_over():
            self._order.epoch += 1
            self._order.position = 0
            self._source.discard()

    def _checked_batch_size(self, value: Any) -> int:
        is_whole = isinstance(value, Integral) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not is_whole or value < 1:
            raise InvalidInput(f"batch_size is {value!r}; expected a whole number from 1 on")
        if value > self._order.samples:
            raise InvalidInput(
                f"batch_size is {value}, but the dataset has only {self._order.samples} samples"
            )
        return int(value)


class LoaderIterator:
    """Yields the next `count` batches, or those left of the epoch. It may be kept between steps."""

    def __init__(self, loader: Loader, count: int | None) -> None:
        self._loader = loader
        self._left = count
        self._epoch: int | None = None  # the one that it goes to the end of, once it has begun

    def __iter__(self) -> LoaderIterator:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        if self._epoch is None:
            loader._begin()
            self._epoch = loader.epoch
        else:
            loader._end_epoch_if_over()
        if self._left == 0 or (self._left is None and loader.epoch != self._epoch):
            raise StopIteration
        if self._left is not None:
            self._left -= 1
        return loader._take()


def _check_dataset(dataset: Any, processes: int) -> None:
    has_places = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    if isinstance(dataset, IterableDataset) or not has_places:
        raise InvalidInput(
            f"the dataset is a {type(dataset).__name__}; expected one with __len__ and __getitem__. A stream "
            "has no places to go back to: after a checkpoint, a trial could not go on with the next sample"
        )
    if len(dataset) == 0:
        raise InvalidInput(f"the dataset ({type(dataset).__name__}) is empty")
    for name, value in getattr(dataset, "__dict__", {}).items() if processes else ():
        if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)):
            raise InvalidInput(
                f"the dataset ({type(dataset).__name__}) keeps a random generator, {name!r}, of which every "
                "worker process would have a copy. Draw from random, numpy.random or torch instead, which a "
                "Loader seeds for every sample, or use num_workers=0"
            )
