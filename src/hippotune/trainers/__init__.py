"""The user's side: Trainer, and adapters for PyTorch and others."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hippotune.trainers.base import Trainer
from hippotune.trainers.memory import is_out_of_memory

if TYPE_CHECKING:
    from hippotune.trainers.torch.loader import Loader
    from hippotune.trainers.torch.trainer import TorchTrainer

__all__ = ["Loader", "TorchTrainer", "Trainer", "is_out_of_memory"]

_ON_DEMAND = {"Loader": "torch.loader", "TorchTrainer": "torch.trainer"}  # they import torch


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(importlib.import_module(f"hippotune.trainers.{_ON_DEMAND[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
