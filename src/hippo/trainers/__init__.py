"""The user's side: Trainer, and adapters for PyTorch and others."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hippo.trainers.base import Trainer
from hippo.trainers.memory import is_out_of_memory

if TYPE_CHECKING:
    from hippo.trainers.data import Loader
    from hippo.trainers.torch import TorchTrainer

__all__ = ["Loader", "TorchTrainer", "Trainer", "is_out_of_memory"]

_ON_DEMAND = {"Loader": "data", "TorchTrainer": "torch"}  # they import torch


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(importlib.import_module(f"hippo.trainers.{_ON_DEMAND[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
