"""Iterators of DataLoaders as state: they go on with the indices that are left, all known in advance."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import RandomSampler, dataloader

from hippotune.trainers import seeding
from hippotune.trainers.state.refusals import Refused

Reduced = tuple[Any, ...]

_MOST_INDICES = 10_000_000
_DRAWS = (
    "is an iterator of a DataLoader whose sampler draws random numbers while it goes, or never ends: "
    "its place cannot be saved. Use hippo.Loader, which goes on where it was"
)


def reduce_loader_iterator(iterator: Any) -> Reduced:
    """Return how an iterator of a DataLoader goes on."""
    if not isinstance(iterator, dataloader._SingleProcessDataLoaderIter):
        is_kept = getattr(iterator, "_persistent_workers", False)  # by the loader, whoever goes through it
        within = "persistent_workers=False and iterate" if is_kept else "num_workers=0, or iterate"
        raise Refused(
            iterator,
            "is an iterator of a DataLoader with worker processes, whose place cannot be saved. Use "
            f"hippo.Loader, which goes on where it was, or {within} within one train()",
        )
    indices = iterator._sampler_iter
    if inspect.isgenerator(indices):
        if inspect.getgeneratorstate(indices) == inspect.GEN_CREATED:
            fetcher = vars(iterator).get("_dataset_fetcher")
            if fetcher is not None and iterator._dataset_kind == dataloader._DatasetKind.Map:
                state = {name: value for name, value in vars(iterator).items() if name != "_sampler_iter"}
                return _fresh_iterator, (iterator._index_sampler,), state, None, None, _set_iterator
        iterator._sampler_iter = _rest_of(iterator, indices)
    return _new, (type(iterator),), dict(vars(iterator))


def _rest_of(iterator: Any, indices: Any) -> Iterator[Any]:
    sampler = _sampler_with_generator(iterator)
    own: Any = None if sampler is None else sampler.generator
    before: Any = seeding.capture()
    state = None if own is None else own.get_state()
    rest = []
    for batch in indices:
        rest.append(batch)
        if len(rest) > _MOST_INDICES:
            break
    if not seeding.same(before, seeding.capture()) or len(rest) > _MOST_INDICES:
        seeding.restore(before)
        raise Refused(iterator, _DRAWS)
    if state is None or torch.equal(state, own.get_state()):
        return iter(rest)
    end = own.get_state()
    own.set_state(state)
    if isinstance(sampler, RandomSampler):
        last = _ThenOneOrder(rest, sampler)
        last.draw()
        drawn = own.get_state()
        own.set_state(state)
        if torch.equal(drawn, end):
            return last
    raise Refused(iterator, _DRAWS)


def _sampler_with_generator(iterator: Any) -> Any:
    batches = iterator._index_sampler
    for sampler in (batches, getattr(batches, "sampler", None)):
        if isinstance(getattr(sampler, "generator", None), torch.Generator):
            return sampler
    return None


class _ThenOneOrder(Iterator[Any]):
    """Indices that are left of a `RandomSampler` with a generator of its own.

    When it has gone through all, such a sampler draws another order, of which it takes nothing.
    """

    def __init__(self, rest: list[Any], sampler: RandomSampler) -> None:
        self._rest = iter(rest)
        self._sampler: RandomSampler | None = sampler

    def __next__(self) -> Any:
        try:
            return next(self._rest)
        except StopIteration:
            self.draw()
            self._sampler = None
            raise

    def draw(self) -> None:
        """Draw an order that is not used."""
        if self._sampler is not None:
            torch.randperm(len(self._sampler.data_source), generator=self._sampler.generator)


# Called by pickle when a checkpoint is loaded.


def _new(cls: Any) -> Any:
    return cls.__new__(cls)


def _fresh_iterator(sampler: Any) -> Any:
    iterator = object.__new__(dataloader._SingleProcessDataLoaderIter)
    iterator._sampler_iter = iter(sampler)
    return iterator


def _set_iterator(iterator: Any, state: dict[str, Any]) -> None:
    vars(iterator).update(state)
