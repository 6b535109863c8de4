"""Which configs there are: grids, samples, conditions."""

from hippotune.spaces.branches import Branches
from hippotune.spaces.distributions import Choice, Int, LogUniform, Option, Uniform
from hippotune.spaces.optuna_space import from_optuna
from hippotune.spaces.samples import Samples
from hippotune.spaces.space import Grid, Space, as_space

__all__ = [
    "Branches",
    "Choice",
    "Grid",
    "Int",
    "LogUniform",
    "Option",
    "Samples",
    "Space",
    "Uniform",
    "as_space",
    "from_optuna",
]
