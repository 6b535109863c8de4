"""Modules, optimizers, loaders and tensors, wherever they are on a trainer."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import Dataset

from hippotune.trainers.state import walk
from hippotune.trainers.torch.loader import Loader

_MANY = 1_000

Kind = TypeVar("Kind")


def find_all(root: Any, kind: type[Kind] | tuple[type, ...]) -> Iterator[Any]:
    """Yield the objects of a kind in a graph, each once; what is inside of one is not looked into.

    Containers of more than 1,000 items are taken for data, and not looked into either.
    """

    def enter(value: Any) -> bool:
        is_whole = isinstance(value, (kind, nn.Module, Tensor, Optimizer, Loader))
        return not is_whole and (isinstance(value, Dataset) or _length(value) <= _MANY)

    found = walk.objects(root, reduced=False, enter=enter)
    return (value for _, value in found if isinstance(value, kind))


def _length(value: Any) -> int:
    try:
        return len(value) if isinstance(value, Sized) else 0
    except Exception:  # an object whose __len__ does not work at this moment
        return 0
