"""Trainers for frameworks that people use already, on one rule.

An adapter calls the framework's *step*, never its resume. Hippo owns the order of the data, the random state
and the values of hyper-parameters; the framework owns all that happens within a step. So a trial has the bits
that the framework's own uninterrupted run has, where order and values are put into that.

Each adapter is a module with an extra of its own, imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hippotune.adapters.lightgbm import LightGBMTrainer
    from hippotune.adapters.lightning import LightningTrainer
    from hippotune.adapters.sklearn import SklearnTrainer
    from hippotune.adapters.transformers import TransformersTrainer
    from hippotune.adapters.xgboost import XGBoostTrainer

__all__ = ["LightGBMTrainer", "LightningTrainer", "SklearnTrainer", "TransformersTrainer", "XGBoostTrainer"]

_MODULES = {
    "LightGBMTrainer": "lightgbm",
    "LightningTrainer": "lightning",
    "SklearnTrainer": "sklearn",
    "TransformersTrainer": "transformers",
    "XGBoostTrainer": "xgboost",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES.values():
        return importlib.import_module(f"hippotune.adapters.{name}")
    if name in _MODULES:
        return getattr(importlib.import_module(f"hippotune.adapters.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
