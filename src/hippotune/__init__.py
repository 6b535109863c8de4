"""Hippo: hyper-parameter studies that train every shared prefix once.

Here is what a study is written with. Beyond that, the submodules in `SUBMODULES` are public. Everything is
imported when it is first used, so that ``import hippotune`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "hippotune.errors": (
        "HippoError",
        "InvalidInput",
        "TrainerError",
        "TrialFailed",
    ),
    "hippotune.executors.local.executor": ("Local",),
    "hippotune.executors.local.pool": ("Pool",),
    "hippotune.executors.ray.executor": ("Ray",),
    "hippotune.executors.simulated.executor": ("Simulated",),
    "hippotune.executors.simulated.recorded": ("Recorded",),
    "hippotune.protocol.failures": ("Retries",),
    "hippotune.scheduling": ("Fluid",),
    "hippotune.sequences": (
        "WSD",
        "WSDS",
        "Config",
        "Constant",
        "Cosine",
        "CosineRestarts",
        "Cyclic",
        "Decay",
        "Exponential",
        "Function",
        "InverseSqrt",
        "Linear",
        "MultiStep",
        "OneCycle",
        "Piecewise",
        "Polynomial",
        "Power",
        "Step",
        "Table",
        "Warmup",
        "from_torch",
    ),
    "hippotune.spaces": ("Branches", "Choice", "Grid", "Int", "LogUniform", "Samples", "Uniform"),
    "hippotune.study.callbacks": ("Callback",),
    "hippotune.study.study": ("Study",),
    "hippotune.study.together": ("tune_together",),
    "hippotune.trainers": ("Loader", "TorchTrainer", "Trainer"),
    "hippotune.tuners": (
        "ASHA",
        "BOHB",
        "PASHA",
        "PBT",
        "EarlyStop",
        "GridSearch",
        "HyperSched",
        "Hyperband",
        "Lazy",
        "MedianStopping",
        "OptunaSearch",
        "RandomSearch",
        "SuccessiveHalving",
        "TrialList",
    ),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

SUBMODULES = (
    "adapters",
    "errors",
    "scheduling",
    "sequences",
    "sinks",
    "spaces",
    "study",
    "testing",
    "tuners",
)

__all__ = sorted([*_MODULES, *SUBMODULES, "__version__"])

if TYPE_CHECKING:
    from hippotune import adapters as adapters
    from hippotune import errors as errors
    from hippotune import scheduling as scheduling
    from hippotune import sequences as sequences
    from hippotune import sinks as sinks
    from hippotune import spaces as spaces
    from hippotune import study as study
    from hippotune import testing as testing
    from hippotune import tuners as tuners
    from hippotune.errors import HippoError as HippoError
    from hippotune.errors import InvalidInput as InvalidInput
    from hippotune.errors import TrainerError as TrainerError
    from hippotune.errors import TrialFailed as TrialFailed
    from hippotune.executors.local.executor import Local as Local
    from hippotune.executors.local.pool import Pool as Pool
    from hippotune.executors.ray.executor import Ray as Ray
    from hippotune.executors.simulated.executor import Simulated as Simulated
    from hippotune.executors.simulated.recorded import Recorded as Recorded
    from hippotune.protocol.failures import Retries as Retries
    from hippotune.scheduling import Fluid as Fluid
    from hippotune.sequences import WSD as WSD
    from hippotune.sequences import WSDS as WSDS
    from hippotune.sequences import Config as Config
    from hippotune.sequences import Constant as Constant
    from hippotune.sequences import Cosine as Cosine
    from hippotune.sequences import CosineRestarts as CosineRestarts
    from hippotune.sequences import Cyclic as Cyclic
    from hippotune.sequences import Decay as Decay
    from hippotune.sequences import Exponential as Exponential
    from hippotune.sequences import Function as Function
    from hippotune.sequences import InverseSqrt as InverseSqrt
    from hippotune.sequences import Linear as Linear
    from hippotune.sequences import MultiStep as MultiStep
    from hippotune.sequences import OneCycle as OneCycle
    from hippotune.sequences import Piecewise as Piecewise
    from hippotune.sequences import Polynomial as Polynomial
    from hippotune.sequences import Power as Power
    from hippotune.sequences import Step as Step
    from hippotune.sequences import Table as Table
    from hippotune.sequences import Warmup as Warmup
    from hippotune.sequences import from_torch as from_torch
    from hippotune.spaces import Branches as Branches
    from hippotune.spaces import Choice as Choice
    from hippotune.spaces import Grid as Grid
    from hippotune.spaces import Int as Int
    from hippotune.spaces import LogUniform as LogUniform
    from hippotune.spaces import Samples as Samples
    from hippotune.spaces import Uniform as Uniform
    from hippotune.study.callbacks import Callback as Callback
    from hippotune.study.study import Study as Study
    from hippotune.study.together import tune_together as tune_together
    from hippotune.trainers import Loader as Loader
    from hippotune.trainers import TorchTrainer as TorchTrainer
    from hippotune.trainers import Trainer as Trainer
    from hippotune.tuners import ASHA as ASHA
    from hippotune.tuners import BOHB as BOHB
    from hippotune.tuners import PASHA as PASHA
    from hippotune.tuners import PBT as PBT
    from hippotune.tuners import EarlyStop as EarlyStop
    from hippotune.tuners import GridSearch as GridSearch
    from hippotune.tuners import Hyperband as Hyperband
    from hippotune.tuners import HyperSched as HyperSched
    from hippotune.tuners import Lazy as Lazy
    from hippotune.tuners import MedianStopping as MedianStopping
    from hippotune.tuners import OptunaSearch as OptunaSearch
    from hippotune.tuners import RandomSearch as RandomSearch
    from hippotune.tuners import SuccessiveHalving as SuccessiveHalving
    from hippotune.tuners import TrialList as TrialList


def __getattr__(name: str) -> Any:
    if name in SUBMODULES:
        return importlib.import_module(f"hippotune.{name}")
    module = _MODULES.get(name)
    if module is None:
        from difflib import get_close_matches

        guesses = [] if name.startswith("_") else get_close_matches(name, __all__, 1)
        hint = f"; did you mean {guesses[0]!r}?" if guesses else ""
        raise AttributeError(f"module 'hippotune' has no attribute {name!r}{hint}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
