"""Training data in an order that can be gone back to.

What always holds for a `Loader`:

* The order of an epoch is a function of (seed, epoch) alone; the place in it is counted in samples.
* Only batches that were handed out count. What worker processes have prepared beyond them is thrown away
  when the place or the batch size changes.
* A sample is the same in its epoch whatever batch, worker process or run it is prepared in: random numbers
  drawn while it is prepared are seeded by (seed, epoch, index), and the training's own are left alone.
* Of several sources, the n-th sample comes from one that is a function of (seed, n) and of the weights in
  force; within a source, the order is a function of (seed, source, position).
* Where several ranks train together, each is handed its part of the same batches; the place still counts all
  samples. Outside of train() every rank gets whole batches.
"""

from __future__ import annotations

import copy
import random
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from hippotune import checks
from hippotune.errors import InvalidInput, MissingExtra
from hippotune.short import listed

try:
    import torch
    from torch.utils.data import ConcatDataset, IterableDataset
except ImportError as error:
    raise MissingExtra("Loader needs PyTorch: pip install 'hippotune[torch]'") from error

from hippotune.sequences.mixtures import shares
from hippotune.trainers.parallel.ranks import in_training
from hippotune.trainers.torch.batches import Batches, Source
from hippotune.trainers.torch.order import MixedOrder, SampleOrder

_FIXED = ("samples", "sizes", "shuffle", "drop_last")
_OWN = ("sampler", "batch_sampler", "generator")  # options of a DataLoader that are a Loader's own business


class Loader:
    """Batches of a dataset, for training.

    ``for batch in loader`` goes to the end of the present epoch: through a whole one, if the last was gone
    through. ``for batch in loader.batches(100)`` takes the next 100 batches, over as many epochs as it needs.
    Both go on where the last one stopped. No batch holds samples of two epochs.

    Parameters
    ----------
    dataset
        With ``__len__`` and ``__getitem__``, or a dict of several such: the sources of a `mixture`. Random
        numbers for augmentation are best drawn from the shared generators (``random``, ``numpy.random``,
        torch), which are seeded for every sample. With worker processes (``num_workers``) a dataset must not
        keep a generator or other state that preparing a sample changes: each process has a copy.
    batch_size
        Samples in a batch. It may be set to another number at any time; the next batch has it.
    seed
        Usually the trainer's: ``seed=self.seed``.
    shuffle
        Whether each epoch has a new order. Otherwise samples come in the dataset's.
    drop_last
        Whether to leave out the samples at the end of an epoch that do not fill a batch.
    mixture
        Of several sources: the chance of each, ``{"web": 0.7, "math": 0.3}``, or a name from `mixtures`. It
        may be set to another at any time; the next batch has it. A mixture has no epochs of its own: read it
        with ``batches(n)``. A source without weight stays where it is; one that runs out begins again.
    mixtures
        Mixtures by name: ``{"math": {"web": 0.5, "math": 0.5}}``.
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
        mixture: Mapping[str, float] | str | None = None,
        mixtures: Mapping[str, Mapping[str, float]] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        **options: Any,
    ) -> None:
        sources = dataset if isinstance(dataset, Mapping) else {"": dataset}
        if not sources:
            raise InvalidInput("the dataset is an empty dict; expected the sources of a mixture by name")
        for name, source in sources.items():
            _check_dataset(f"the source {name!r}" if name else "the dataset", source, options)
        if given := [name for name in _OWN if name in options]:
            raise InvalidInput(
                f"a Loader takes no {', '.join(given)}: it keeps an order of its own, made from seed"
            )
        self.dataset = dataset
        self._mixtures = {name: shares(f"mixtures[{name!r}]", of) for name, of in (mixtures or {}).items()}
        self._order: SampleOrder | MixedOrder
        if isinstance(dataset, Mapping):
            self.dataset = ConcatDataset(list(sources.values()))
            sizes = {name: len(source) for name, source in sources.items()}
            if mixture is None:
                raise InvalidInput(f"mixture is missing; expected the weights of {listed(sizes)}")
            self._order = MixedOrder(sizes, seed, shuffle, {})
            for name in self._mixtures:  # an unknown source would only be found when it is used
                self._weights(name)
            self._order.weights = self._weights(mixture)
        elif mixture is not None or mixtures:
            raise InvalidInput("a mixture needs a dict of datasets: Loader({'web': ..., 'math': ...}, ...)")
        else:
            self._order = SampleOrder(len(dataset), seed, shuffle, drop_last)
        self._order.batch_size = self._checked_batch_size(batch_size)
        self._make_source(collate_fn, options)

    def _make_source(self, collate_fn: Any, options: dict[str, Any]) -> None:
        self._source = Source(Batches(self.dataset, collate_fn), self._order, options)
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
        return self._one_source("epoch").epoch

    @property
    def position(self) -> int:
        """The number of samples of the present epoch that were handed out."""
        return self._one_source("position").position

    @property
    def positions(self) -> dict[str, int]:
        """How many samples of each source of a mixture were handed out, over all of its epochs."""
        return dict(self._mixed().positions)

    @property
    def mixture(self) -> dict[str, float]:
        """The weights of the sources, from the next batch on. It is set by weights, or by a name."""
        return dict(self._mixed().weights)

    @mixture.setter
    def mixture(self, value: Mapping[str, float] | str) -> None:
        order, weights = self._mixed(), self._weights(value)
        if weights != order.weights:
            order.weights = weights
            self._source.discard()

    @property
    def is_mixture(self) -> bool:
        """Whether samples come from several sources."""
        return isinstance(self._order, MixedOrder)

    @property
    def seed(self) -> int:
        """The seed of the order. A new one counts from the next epoch on, of each source for itself."""
        return self._order.seed if isinstance(self._order, MixedOrder) else self._order.next_seed

    @seed.setter
    def seed(self, value: int) -> None:
        if value != self.seed:
            self._order.reseed(value)
            self._source.discard()

    def _mixed(self) -> MixedOrder:
        if isinstance(self._order, SampleOrder):
            raise InvalidInput("this Loader has one dataset, and no mixture; make it from a dict of datasets")
        return self._order

    def _one_source(self, what: str) -> SampleOrder:
        if isinstance(self._order, MixedOrder):
            raise InvalidInput(f"a mixture has no {what} of its own; read it with batches(n), see positions")
        return self._order

    def _weights(self, value: Mapping[str, float] | str) -> dict[str, float]:
        sizes, is_name = self._mixed().sizes, isinstance(value, str) and value in self._mixtures
        if not is_name and not isinstance(value, Mapping):
            raise InvalidInput(
                f"mixture is {value!r}; expected weights of {listed(sizes)}"
                + (f", or one of {listed(self._mixtures)}" if self._mixtures else "")
            )
        weights = self._mixtures[value] if isinstance(value, str) else shares("mixture", value)
        if unknown := weights.keys() - sizes.keys():
            where = f"mixtures[{value!r}]" if is_name else "mixture"
            raise InvalidInput(f"{where} has {listed(unknown)}; the sources are {listed(sizes)}")
        return dict(weights)

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
        order = self._one_source("length")
        whole, rest = divmod(order.samples, order.batch_size)
        return whole + (rest > 0 and not order.drop_last)

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches that are left of the present epoch."""
        self._one_source("epoch")
        return LoaderIterator(self, None)

    def batches(self, count: int) -> Iterator[Any]:
        """Yield the next `count` batches."""
        return LoaderIterator(self, count)

    def state_dict(self) -> dict[str, Any]:
        """Return the place and the batch size, and what the order depends on."""
        return copy.deepcopy(vars(self._order))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to the place that `state` was taken at."""
        present = self.state_dict()
        if other := [name for name in _FIXED if state.get(name) != present.get(name)]:
            raise InvalidInput(
                "the loader's place was saved for another order: "
                + ", ".join(f"{name} was {state.get(name)} and is {present.get(name)} here" for name in other)
            )
        if state != present:
            vars(self._order).update(copy.deepcopy(state))
            self._source.discard()

    def _begin(self) -> None:
        self._source.refresh()
        self._end_epoch_if_over()

    def _take(self) -> Any:
        ranks = in_training()
        self._source.keep_to(None if ranks is None else ranks.share)
        batch = self._source.next_batch()
        samples = self._order.advance()
        if ranks is not None:
            ranks.batch.hand_out(id(self), samples)
        self._end_epoch_if_over()
        return batch

    def _end_epoch_if_over(self) -> None:
        if isinstance(self._order, SampleOrder) and self._order.ends_epoch():
            self._source.discard()

    def _checked_batch_size(self, value: Any) -> int:
        is_whole = isinstance(value, float) and value.is_integer()
        size = checks.whole("batch_size", int(value) if is_whole else value)
        if isinstance(self._order, SampleOrder) and size > self._order.samples:
            raise InvalidInput(
                f"batch_size is {size}, but the dataset has only {self._order.samples} samples"
            )
        return size


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
            self._epoch = loader._order.place()[0]
        else:
            loader._end_epoch_if_over()
        if self._left == 0 or (self._left is None and loader._order.place()[0] != self._epoch):
            raise StopIteration
        if self._left is not None:
            self._left -= 1
        return loader._take()


def _check_dataset(what: str, dataset: Any, options: Mapping[str, Any]) -> None:
    has_places = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    if isinstance(dataset, IterableDataset) or not has_places:
        raise InvalidInput(
            f"{what} is a {type(dataset).__name__}; expected one with __len__ and __getitem__. A stream "
            "has no places to go back to: after a checkpoint, a trial could not go on with the next sample"
        )
    if len(dataset) == 0:
        raise InvalidInput(f"{what} ({type(dataset).__name__}) is empty")
    for name, value in getattr(dataset, "__dict__", {}).items() if options.get("num_workers") else ():
        if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)):
            raise InvalidInput(
                f"{what} ({type(dataset).__name__}) keeps a random generator, {name!r}, of which every "
                "worker process would have a copy. Draw from random, numpy.random or torch instead, which a "
                "Loader seeds for every sample, or use num_workers=0"
            )
