"""What may not be an attribute of a torch trainer, because it would be silently wrong after a checkpoint."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler

from hippotune.errors import TrainerError
from hippotune.trainers.stateful import is_stateful

_LOADER = (
    "a DataLoader that shuffles keeps neither its order nor its place in it when a trial is interrupted, and "
    "its batch size cannot change on the way. Write hippo.Loader(dataset, batch_size, seed=self.seed); "
    "a DataLoader with shuffle=False may stay, for evaluate()"
)
_ITERABLE = (
    "an IterableDataset has no places to go back to, so an interrupted trial would go on with other samples. "
    "Use a dataset with __len__ and __getitem__ in a hippo.Loader"
)
_SCHEDULER = (
    "it would overwrite the learning rate that setup() puts into force, and what trials have in common could "
    "not be shared. Leave it out and put its schedule into the space: hippo.from_torch makes a sequence of it"
)
_ITERATOR = (
    "its place cannot be saved, so an interrupted trial would begin anew with it. Go through a hippo.Loader "
    "(`for batch in self.loader.batches(100)` keeps its place), or make the iterator inside train()"
)
_LAZY = (
    "it has parameters without a shape, which the first batch would make, in train() or in evaluate(). "
    "Run one batch through it in build()"
)


def check_allowed(leaves: Iterable[tuple[str, Any]]) -> None:
    """Raise `TrainerError` for the first of these named attributes that may not be one."""
    for name, value in leaves:
        if (reason := _reason_against(value)) is not None:
            raise TrainerError(f"self.{name} is a {type(value).__name__}: {reason}")


def _reason_against(value: Any) -> str | None:
    if isinstance(value, nn.Module):
        return _LAZY if any(map(nn.parameter.is_lazy, value.parameters())) else None
    if isinstance(value, LRScheduler):
        return _SCHEDULER
    if isinstance(value, DataLoader):
        if isinstance(value.dataset, IterableDataset):
            return _ITERABLE
        return None if _is_sequential(value) else _LOADER
    if isinstance(value, Iterator) and not isinstance(value, io.IOBase) and not is_stateful(value):
        return _ITERATOR
    return None


def _is_sequential(loader: DataLoader[Any]) -> bool:
    batches = loader.batch_sampler
    if batches is not None and type(batches) is not BatchSampler:
        return False
    return isinstance(batches.sampler if batches is not None else loader.sampler, SequentialSampler)
