"""Trunks: configs without a fixed end, trained as far as their branches ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hippotune.errors import InvalidInput
from hippotune.sequences.base import Sequence
from hippotune.sequences.config import Config
from hippotune.sequences.values import Written

if TYPE_CHECKING:
    from hippotune.study.study import Study

_PER_DOUBLING = 4


def likely_branches(last: int) -> tuple[int, ...]:
    """Return the steps up to `last` at which checkpoints are kept: each 2 ** 1/4 times the one before."""
    steps, number = [], 0
    while (step := round(2 ** (number / _PER_DOUBLING))) <= last:
        steps.append(step)
        number += 1
    return tuple(sorted({*steps, last}))


class Trunk:
    """A config that others leave; made by `Study.trunk`.

    It is trained as far as its branches ask, and further when they ask for more. Checkpoints are kept on its
    way where branches are likely: at steps that grow by a factor of 2 ** 1/4, at the newest, and wherever a
    branch begins, as far as the study's checkpoint budget allows.

    Attributes
    ----------
    config : Config
        What the trunk is trained with.
    """

    def __init__(self, study: Study, config: Config) -> None:
        self._study = study
        self.config = config

    def __repr__(self) -> str:
        return f"<trunk of study {self._study.name!r}: {self.config!r}>"

    def train(self, step: int) -> dict[str, float]:
        """Train the trunk to a step, where that is still to do, and return its metrics there."""
        return self._study.eval(self.config, step)

    def branch(self, at: int, *, absolute: bool = False, **changes: Sequence | Written) -> Config:
        """Return the config of a branch, as `Config.branch` does; the study's defaults count."""
        if unknown := changes.keys() - self.config.keys() - self._study.defaults.keys():
            name = min(unknown)
            raise InvalidInput(
                f"the trunk has no hyper-parameter {name!r}; name it there, or give its value before step "
                f"{at} with Study(defaults={{{name!r}: ...}})"
            )
        branch = self.config.branch(at, absolute=absolute, **changes)
        return branch.completed(self._study.defaults)
