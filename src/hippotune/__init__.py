"""Hippo: hyper-parameter studies that train every shared beginning once.

The names below are the public face. They are imported when first used, so that ``import hippotune`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "hippotune.errors": (
        "CheckpointError",
        "HippoError",
        "IllegalTransition",
        "InvalidInput",
        "MissingExtra",
        "NotExact",
        "StoreError",
        "TrainerError",
        "TrialFailed",
    ),
    "hippotune.study.estimates": ("Cost", "Estimate", "estimate", "format_estimates"),
    "hippotune.executors.local.executor": ("Local",),
    "hippotune.executors.ray.executor": ("Ray",),
    "hippotune.executors.simulated.executor": ("Simulated",),
    "hippotune.executors.simulated.metrics": ("Recorded",),
    "hippotune.study.report": ("Best", "Report", "TrialReport", "Work"),
    "hippotune.scheduling": ("Allocation", "Contender", "Fluid", "WidthPolicy"),
    "hippotune.sequences": (
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
        "first_difference",
    ),
    "hippotune.spaces": ("Choice", "Grid", "Int", "LogUniform", "Option", "Samples", "Space", "Uniform"),
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

__all__ = sorted([*_MODULES, "__version__", "testing"])

if TYPE_CHECKING:
    from hippotune import testing as testing
    from hippotune.errors import CheckpointError as CheckpointError
    from hippotune.errors import HippoError as HippoError
    from hippotune.errors import IllegalTransition as IllegalTransition
    from hippotune.errors import InvalidInput as InvalidInput
    from hippotune.errors import MissingExtra as MissingExtra
    from hippotune.errors import NotExact as NotExact
    from hippotune.errors import StoreError as StoreError
    from hippotune.errors import TrainerError as TrainerError
    from hippotune.errors import TrialFailed as TrialFailed
    from hippotune.executors.local.executor import Local as Local
    from hippotune.executors.ray.executor import Ray as Ray
    from hippotune.executors.simulated.executor import Simulated as Simulated
    from hippotune.executors.simulated.metrics import Recorded as Recorded
    from hippotune.scheduling import Allocation as Allocation
    from hippotune.scheduling import Contender as Contender
    from hippotune.scheduling import Fluid as Fluid
    from hippotune.scheduling import WidthPolicy as WidthPolicy
    from hippotune.sequences import Config as Config
    from hippotune.sequences import Constant as Constant
    from hippotune.sequences import Cosine as Cosine
    from hippotune.sequences import CosineRestarts as CosineRestarts
    from hippotune.sequences import Cyclic as Cyclic
    from hippotune.sequences import Exponential as Exponential
    from hippotune.sequences import Function as Function
    from hippotune.sequences import InverseSqrt as InverseSqrt
    from hippotune.sequences import Linear as Linear
    from hippotune.sequences import MultiStep as MultiStep
    from hippotune.sequences import OneCycle as OneCycle
    from hippotune.sequences import Piecewise as Piecewise
    from hippotune.sequences import Polynomial as Polynomial
    from hippotune.sequences import Sequence as Sequence
    from hippotune.sequences import Step as Step
    from hippotune.sequences import Table as Table
    from hippotune.sequences import Then as Then
    from hippotune.sequences import Warmup as Warmup
    from hippotune.sequences import first_difference as first_difference
    from hippotune.sequences import from_torch as from_torch
    from hippotune.spaces import Choice as Choice
    from hippotune.spaces import Grid as Grid
    from hippotune.spaces import Int as Int
    from hippotune.spaces import LogUniform as LogUniform
    from hippotune.spaces import Option as Option
    from hippotune.spaces import Samples as Samples
    from hippotune.spaces import Space as Space
    from hippotune.spaces import Uniform as Uniform
    from hippotune.study.estimates import Cost as Cost
    from hippotune.study.estimates import Estimate as Estimate
    from hippotune.study.estimates import estimate as estimate
    from hippotune.study.estimates import format_estimates as format_estimates
    from hippotune.study.report import Best as Best
    from hippotune.study.report import Report as Report
    from hippotune.study.report import TrialReport as TrialReport
    from hippotune.study.report import Work as Work
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
    from hippotune.tuners import MedianStopping as MedianStopping
    from hippotune.tuners import OptunaSearch as OptunaSearch
    from hippotune.tuners import RandomSearch as RandomSearch
    from hippotune.tuners import Result as Result
    from hippotune.tuners import SuccessiveHalving as SuccessiveHalving
    from hippotune.tuners import Trial as Trial
    from hippotune.tuners import TrialGroup as TrialGroup
    from hippotune.tuners import Trials as Trials
    from hippotune.tuners import Tuner as Tuner


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("hippotune.testing")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'hippotune' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, "testing"})
