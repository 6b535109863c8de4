"""The batches of a framework's loader, in Hippo's order: what PyTorch's adapters have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from hippotune.errors import TrainerError
from hippotune.trainers.torch.loader import Loader


class Batches:
    """The batches of a step: indices from Hippo's loader, samples and collation from the framework's."""

    def __init__(self, loader: Loader, usual: Any, count: int | None) -> None:
        """Take `count` batches, or those of an epoch."""
        self._loader, self._count = loader, count
        self._dataset, self._collate = usual.dataset, usual.collate_fn

    def __len__(self) -> int:
        return len(self._loader) if self._count is None else self._count

    def __iter__(self) -> Iterator[Any]:
        dataset = self._dataset
        together = getattr(dataset, "__getitems__", None)
        for indices in self._loader if self._count is None else self._loader.batches(self._count):
            yield self._collate(together(indices) if together else [dataset[index] for index in indices])


def check_order(usual: Any, where: str) -> None:
    """Raise where a loader does not go through all samples once: it draws by weights, or only some."""
    batches = usual.batch_sampler
    sampler = getattr(batches, "sampler", batches)
    whole = isinstance(sampler, RandomSampler) and not sampler.replacement
    if type(batches) is BatchSampler and (
        type(sampler) is SequentialSampler or (whole and len(sampler) == len(usual.dataset))
    ):
        return
    raise TrainerError(
        f"{where} has a {type(sampler).__name__} of its own, which cannot hold in a study: every epoch goes "
        "through all samples once, in Hippo's order. Put what the sampler does into the dataset"
    )
