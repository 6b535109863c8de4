"""Branches of one trunk: configs that are the trunk up to a step, and changed from there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.config import Config, ConfigLike
from hippotune.spaces.distributions import Choice
from hippotune.spaces.notation import Values
from hippotune.spaces.space import Space, as_space

_AT = "at"
"""The name by which the step of a branch stands among its values, for samplers and `where`."""


class Branches(Space):
    """Every change of `changes` from every step of `at`: a space of configs that share their trunk.

    ``Branches(trunk, at=[14_400], changes=Grid({"mix": ["web", "math"], "lr": [Decay(1e-3, 1_600)]}))``

    Parameters
    ----------
    trunk : Config or Mapping[str, Sequence or value]
        What all of them are until they branch off.
    at : list of int
        The steps at which they may do so.
    changes : Space or Mapping[str, Any]
        What changes there. New sequences count their steps from the branch on.
    absolute : bool
        Whether new sequences count from the start of the trial instead.
    """

    def __init__(
        self,
        trunk: ConfigLike,
        at: Iterable[int],
        changes: Space | Mapping[str, Any],
        absolute: bool = False,
    ) -> None:
        self.trunk = Config.of(trunk)
        self.at = checks.milestones("at", at, repeats=False)
        if not self.at:
            raise InvalidInput("at is empty; expected the steps at which branches leave the trunk")
        self.changes = as_space(changes)
        if _AT in self.changes.parameters:
            raise InvalidInput(f"changes has a hyper-parameter {_AT!r}, which is the step of a branch here")
        self.absolute = checks.yes_or_no("absolute", absolute)
        super().__init__({_AT: Choice(*self.at), **self.changes.parameters}, self.changes.where)

    @property
    def branches(self) -> Branches:
        """These."""
        return self

    def config(self, values: Values) -> Config:
        """Make a config: the trunk, and the changes from the step among the values."""
        changes = {name: value for name, value in values.items() if name != _AT}
        return self.trunk.branch(values[_AT], absolute=self.absolute, **changes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Branches):
            return NotImplemented
        mine, theirs = ((s.trunk, s.at, s.changes, s.absolute) for s in (self, other))
        return mine == theirs

    __hash__ = None

    def __repr__(self) -> str:
        absolute = ", absolute=True" if self.absolute else ""
        return f"Branches({self.trunk!r}, at={list(self.at)}, changes={self.changes!r}{absolute})"
