"""Hippo: hyper-parameter studies that train every shared beginning once.

The names below are the public face. They are imported when first used, so that ``import hippo`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "hippo.errors": (
        "CheckpointError",
        "HippoError",
        "IllegalTransition",
        "InvalidInput",
        "MissingExtra",
        "StoreError",
        "TrainerError",
        "TrialFailed",
    ),
    "hippo.executors.local": ("Local",),
    "hippo.executors.simulated": ("Simulated",),
    "hippo.report": ("Best", "Report", "TrialReport", "Work"),
    "hippo.sequences": (
        "Config",
        "Constant",
        "Cosine",
        "CosineRestarts",
        "Cyclic",
        "Exponential",
        "Function",
        "InverseSqrt",
        "Linear",
        "MultiStep",
        "OneCycle",
        "Piecewise",
        "Polynomial",
        "Sequence",
        "Step",
        "Table",
        "Then",
        "Warmup",
        "from_torch",
        "parting",
    ),
    "hippo.spaces": ("Choice", "Grid", "Int", "LogUniform", "Option", "Samples", "Space", "Uniform"),
    "hippo.study": ("Study",),
    "hippo.together": ("tune_together",),
    "hippo.trainers": ("Loader", "TorchTrainer", "Trainer"),
    "hippo.tuners": (
        "ASHA",
        "BOHB",
        "PASHA",
        "PBT",
        "EarlyStop",
        "GridSearch",
        "Hyperband",
        "MedianStopping",
        "OptunaSearch",
        "RandomSearch",
        "Result",
        "SuccessiveHalving",
        "Trial",
        "TrialGroup",
        "Trials",
        "Tuner",
    ),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted([*_MODULES, "__version__"])

if TYPE_CHECKING:
    from hippo.errors import HippoError as HippoError


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'hippo' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
