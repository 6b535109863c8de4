"""Members of a population, and how one is changed in the midst of training."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from hippotune.sequences.config import Config
from hippotune.spaces.distributions import Choice, Option
from hippotune.spaces.members import Member, draw
from hippotune.spaces.notation import resolve
from hippotune.spaces.sources import Chance, Drawn, Record
from hippotune.spaces.space import Space

FACTORS = (0.8, 1.2)
"""What a number is multiplied by, as published."""

TRIES = 100
"""How often changing is tried again where `where` rejects what came of it; after that nothing is changed."""


class Explorer:
    """Draws members, and changes copies of them."""

    def __init__(
        self, space: Space, names: Collection[str], resample: float, generator: np.random.Generator
    ) -> None:
        self._space = space
        self._open = {
            leaf: distribution
            for leaf, distribution in space.leaves.items()
            if space.owners[leaf] in names and not _brings_parameters(distribution)
        }
        self._resample = resample
        self._generator = generator

    def draw(self) -> Member:
        """Return a new member."""
        return draw(self._space, self._generator)

    def changed(self, member: Member, step: int) -> Member:
        """Return a member that has the same config before `step`, and changed sequences from there on."""
        for _ in range(TRIES):
            record = Record(Chance(self._generator), self._moved(member.drawn))
            values = resolve(self._space.parameters, record)
            if self._space.accepts(values):
                sequences = {
                    name: sequence
                    if values[name] == member.values[name]
                    else sequence.then(values[name], at=step)
                    for name, sequence in member.config.items()
                }
                return Member(Config(sequences), values, record.drawn)
        return member

    def _moved(self, drawn: Drawn) -> Drawn:
        """Return what is kept or moved a little; what is to be drawn anew is left out."""
        known: Drawn = {}
        for leaf, value in drawn.items():
            distribution = self._open.get(leaf)
            if distribution is None:
                known[leaf] = value
            elif self._generator.random() >= self._resample:
                up = bool(self._generator.integers(2))
                if isinstance(distribution, Choice):
                    known[leaf] = min(max(int(value) + (1 if up else -1), 0), len(distribution.options) - 1)
                else:
                    known[leaf] = distribution.nearest(value * FACTORS[up])
        return known


def _brings_parameters(distribution: object) -> bool:
    """Whether hyper-parameters would come or go with the choice, which no config can do midway."""
    return isinstance(distribution, Choice) and any(
        isinstance(option, Option) and option.parameters for option in distribution.options
    )
