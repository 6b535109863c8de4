"""Which configs there are: grids, samples, conditions."""

from hippo.spaces.distributions import Choice, Int, LogUniform, Option, Uniform
from hippo.spaces.samples import Samples
from hippo.spaces.space import Grid, Space, as_space

__all__ = ["Choice", "Grid", "Int", "LogUniform", "Option", "Samples", "Space", "Uniform", "as_space"]
