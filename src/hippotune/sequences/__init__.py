"""Values over steps: families of sequences, combinators, configs, and where two of them part."""

from hippotune.sequences.base import Distribution, Sequence
from hippotune.sequences.combined import Then, Warmup
from hippotune.sequences.config import Config
from hippotune.sequences.constant import Constant, as_sequence
from hippotune.sequences.custom import Function, Table
from hippotune.sequences.cycles import Cosine, CosineRestarts, Cyclic, OneCycle
from hippotune.sequences.decays import (
    Exponential,
    InverseSqrt,
    Linear,
    MultiStep,
    Piecewise,
    Polynomial,
    Step,
)
from hippotune.sequences.encoding import from_json
from hippotune.sequences.family import Family
from hippotune.sequences.first_difference import first_difference
from hippotune.sequences.lr_schedulers import from_torch
from hippotune.sequences.stable import WSD, WSDS, Decay, Power
from hippotune.sequences.values import Value

__all__ = [
    "WSD",
    "WSDS",
    "Config",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "Cyclic",
    "Decay",
    "Distribution",
    "Exponential",
    "Family",
    "Function",
    "InverseSqrt",
    "Linear",
    "MultiStep",
    "OneCycle",
    "Piecewise",
    "Polynomial",
    "Power",
    "Sequence",
    "Step",
    "Table",
    "Then",
    "Value",
    "Warmup",
    "as_sequence",
    "first_difference",
    "from_json",
    "from_torch",
]
