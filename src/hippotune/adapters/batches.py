"""The batches of a framework's loader, in Hippo's order, and what else PyTorch's adapters have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from hippotune.errors import TrainerError
from hippotune.trainers.torch.loader import Loader

TUNER = "a trial is trained as far as a tuner asks, and evaluated by evaluate()"
Held = Mapping[str, tuple[tuple[Any, ...], str]]
"""The values that settings may have in a study, and why."""


class Live:
    """The framework's own trainer in this process, and its training loader. No checkpoint has them."""

    def __init__(self) -> None:
        self.trainer: Any = None
        self.loader: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]


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


def loader_like(usual: Any, batch_size: int, seed: int, drop_last: bool) -> Loader:
    """Return a loader of the numbers of samples, in Hippo's order."""
    return Loader(range(len(usual.dataset)), batch_size, seed=seed, drop_last=drop_last, collate_fn=list)


def check_held(settings: Any, held: Held, whose: str) -> None:
    """Raise where a setting has a value that cannot hold in a study."""
    for name, (allowed, why) in held.items():
        value = getattr(settings, name, allowed[0])
        value = getattr(value, "value", value)  # of an enumeration
        if value not in allowed:
            raise TrainerError(f"{whose} has {name}={value!r}, which cannot hold in a study: {why}")


def check_order(usual: Any, where: str) -> None:
    """Raise where a loader does not go through all samples once: it draws by weights, or only some."""
    if isinstance(usual.dataset, IterableDataset):
        raise TrainerError(
            f"{where} has an IterableDataset, {type(usual.dataset).__name__}; expected a dataset with a "
            "length and samples by number: Hippo keeps their order"
        )
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
