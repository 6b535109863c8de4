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
    "hippo.estimates": ("Cost", "Estimate", "estimate", "format_estimates"),
    "hippo.executors.local": ("Local",),
    "hippo.executors.on_ray": ("Ray",),
    "hippo.executors.simulated": ("Simulated",),
    "hippo.executors.simulation_metrics": ("Recorded",),
    "hippo.report": ("Best", "Report", "TrialReport", "Work"),
    "hippo.scheduling": ("Allocation", "Contender", "Fluid", "WidthPolicy"),
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

__all__ = sorted([*_MODULES, "__version__"])

if TYPE_CHECKING:
    from hippo.errors import CheckpointError as CheckpointError
    from hippo.errors import HippoError as HippoError
    from hippo.errors import IllegalTransition as IllegalTransition
    from hippo.errors import InvalidInput as InvalidInput
    from hippo.errors import MissingExtra as MissingExtra
    from hippo.errors import StoreError as StoreError
    from hippo.errors import TrainerError as TrainerError
    from hippo.errors import TrialFailed as TrialFailed
    from hippo.estimates import Cost as Cost
    from hippo.estimates import Estimate as Estimate
    from hippo.estimates import estimate as estimate
    from hippo.estimates import format_estimates as format_estimates
    from hippo.executors.local import Local as Local
    from hippo.executors.on_ray import Ray as Ray
    from hippo.executors.simulated import Simulated as Simulated
    from hippo.executors.simulation_metrics import Recorded as Recorded
    from hippo.report import Best as Best
    from hippo.report import Report as Report
    from hippo.report import TrialReport as TrialReport
    from hippo.report import Work as Work
    from hippo.scheduling import Allocation as Allocation
    from hippo.scheduling import Contender as Contender
    from hippo.scheduling import Fluid as Fluid
    from hippo.scheduling import WidthPolicy as WidthPolicy
    from hippo.sequences import Config as Config
    from hippo.sequences import Constant as Constant
    from hippo.sequences import Cosine as Cosine
    from hippo.sequences import CosineRestarts as CosineRestarts
    from hippo.sequences import Cyclic as Cyclic
    from hippo.sequences import Exponential as Exponential
    from hippo.sequences import Function as Function
    from hippo.sequences import InverseSqrt as InverseSqrt
    from hippo.sequences import Linear as Linear
    from hippo.sequences import MultiStep as MultiStep
    from hippo.sequences import OneCycle as OneCycle
    from hippo.sequences import Piecewise as Piecewise
    from hippo.sequences import Polynomial as Polynomial
    from hippo.sequences import Sequence as Sequence
    from hippo.sequences import Step as Step
    from hippo.sequences import Table as Table
    from hippo.sequences import Then as Then
    from hippo.sequences import Warmup as Warmup
    from hippo.sequences import from_torch as from_torch
    from hippo.sequences import parting as parting
    from hippo.spaces import Choice as Choice
    from hippo.spaces import Grid as Grid
    from hippo.spaces import Int as Int
    from hippo.spaces import LogUniform as LogUniform
    from hippo.spaces import Option as Option
    from hippo.spaces import Samples as Samples
    from hippo.spaces import Space as Space
    from hippo.spaces import Uniform as Uniform
    from hippo.study import Study as Study
    from hippo.together import tune_together as tune_together
    from hippo.trainers import Loader as Loader
    from hippo.trainers import TorchTrainer as TorchTrainer
    from hippo.trainers import Trainer as Trainer
    from hippo.tuners import ASHA as ASHA
    from hippo.tuners import BOHB as BOHB
    from hippo.tuners import PASHA as PASHA
    from hippo.tuners import PBT as PBT
    from hippo.tuners import EarlyStop as EarlyStop
    from hippo.tuners import GridSearch as GridSearch
    from hippo.tuners import Hyperband as Hyperband
    from hippo.tuners import HyperSched as HyperSched
    from hippo.tuners import MedianStopping as MedianStopping
    from hippo.tuners import OptunaSearch as OptunaSearch
    from hippo.tuners import RandomSearch as RandomSearch
    from hippo.tuners import Result as Result
    from hippo.tuners import SuccessiveHalving as SuccessiveHalving
    from hippo.tuners import Trial as Trial
    from hippo.tuners import TrialGroup as TrialGroup
    from hippo.tuners import Trials as Trials
    from hippo.tuners import Tuner as Tuner


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'hippo' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
