"""Which parameters of a config are in force by a step: those that would have made a difference by then.

A parameter may be that of a schedule's late part: until then, configs that differ in it are one and the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hippotune.errors import InvalidInput
from hippotune.spaces.distributions import Choice
from hippotune.spaces.notation import resolve
from hippotune.spaces.sources import Quantiles, Record
from hippotune.spaces.space import Space

# Where other values of a parameter are looked for, in its distribution.
_QUANTILES = (0.05, 0.35, 0.65, 0.95)


class _Middle(Quantiles):
    """Answers with the middle of each distribution: for what comes with another choice."""

    def quantile(self, name: str) -> float:
        """Return a half."""
        return 0.5


def makes_a_difference(space: Space, drawn: Mapping[str, int | float], name: str, step: int) -> bool:
    """Whether another value of a parameter gives other hyper-parameters before `step`."""
    own = space.config(resolve(space.parameters, Record(_Middle(), drawn)))
    for value in _others(space, drawn, name):
        try:
            other = space.config(resolve(space.parameters, Record(_Middle(), {**drawn, name: value})))
        except InvalidInput:  # a value that does not go with the others matters
            return True
        if own.first_difference(other, step) is not None:
            return True
    return False


def _others(space: Space, drawn: Mapping[str, int | float], name: str) -> Iterator[int | float]:
    """Yield other values of a parameter, from all over its distribution."""
    distribution = space.leaves[name]
    if isinstance(distribution, Choice):
        values: list[int | float] = [int(place * len(distribution.options)) for place in _QUANTILES]
    else:
        values = [distribution.at(place) for place in _QUANTILES]
    yield from (value for value in dict.fromkeys(values) if value != drawn[name])
