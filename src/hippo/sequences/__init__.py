"""Values over steps: families of sequences, combinators, configs, and where two of them part."""

from hippo.sequences.base import Distribution, Sequence
from hippo.sequences.combined import Then, Warmup
from hippo.sequences.config import Config
from hippo.sequences.constant import Constant, as_sequence
from hippo.sequences.custom import Function, Table
from hippo.sequences.cycles import Cosine, CosineRestarts, Cyclic, OneCycle
from hippo.sequences.decays import Exponential, InverseSqrt, Linear, MultiStep, Piecewise, Polynomial, Step
from hippo.sequences.encoding import from_json, register_distribution
from hippo.sequences.family import Family
from hippo.sequences.lr_schedulers import from_torch
from hippo.sequences.parting import parting
from hippo.sequences.values import Value

__all__ = [
    "Config",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "Cyclic",
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
    "Sequence",
    "Step",
    "Table",
    "Then",
    "Value",
    "Warmup",
    "as_sequence",
    "from_json",
    "from_torch",
    "parting",
    "register_distribution",
]
