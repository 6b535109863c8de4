"""Where a search looks for its next config: fresh draws, and configs that share much with what is trained.

All of them are members of the space.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hippotune.sequences.config import Config
from hippotune.spaces.members import Member, draw, near
from hippotune.spaces.space import Space

FRESH = 64
"""How many configs are drawn for every proposal."""

_LISTED = 2048
"""A finite space of no more configs than this is looked at as a whole."""

_PARENTS = 12
_NEAR_EACH = 8


class Candidates:
    """Proposes candidates. Without `branches`, fresh draws alone."""

    def __init__(self, space: Space, generator: np.random.Generator, branches: bool) -> None:
        self._space = space
        self._generator = generator
        self._branches = branches
        listed = space.finite and space.up_to(_LISTED + 1) <= _LISTED
        self._listed = list(space.configs()) if listed else None
        self._members: dict[Config, Member] = {}

    def reference(self) -> list[Config]:
        """Return configs from all over the space."""
        return self._listed or [self._draw() for _ in range(4 * FRESH)]

    def fresh(self) -> list[Config]:
        """Return configs by chance alone."""
        if self._listed is None:
            return [self._draw() for _ in range(FRESH)]
        return [self._listed[place] for place in self._generator.permutation(len(self._listed))[:FRESH]]

    def around(self, best: Iterable[Config], foreseen: Iterable[Config]) -> list[Config]:
        """Return fresh configs, those that were foreseen, and some that are near the best ones."""
        if not self._branches:
            return self.fresh()
        if self._listed is not None:
            return self._listed
        found = dict.fromkeys([*self.fresh(), *foreseen])
        for config in list(best)[:_PARENTS]:
            found |= dict.fromkeys(self.near(config, _NEAR_EACH))
        return list(found)

    def near(self, config: Config, number: int) -> list[Config]:
        """Return up to `number` further configs that differ little from a candidate; of a list, none."""
        if not self._branches or self._listed is not None:
            return []
        drawn = (near(self._space, self._members[config], self._generator) for _ in range(number))
        members = {member.config: member for member in drawn if member is not None}
        self._members |= members
        return list(members)

    def _draw(self) -> Config:
        member = draw(self._space, self._generator)
        self._members[member.config] = member
        return member.config
