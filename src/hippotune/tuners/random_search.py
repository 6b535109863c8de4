"""Random search: a number of configs drawn from the space, to the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hippotune.spaces.space import Space
from hippotune.tuners.base import TrialGroup, Trials
from hippotune.tuners.space_tuner import SpaceTuner


class RandomSearch(SpaceTuner):
    """Train `trials` configs drawn from `space` for `max_steps` steps, all in one trial group.

    From a finite space nothing is drawn twice. For quasi-random points give a `Samples` space to
    `GridSearch`.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        max_steps: int,
        trials: int,
        seed: int = 0,
    ) -> None:
        super().__init__(space, metric, mode, max_steps, trials, seed)

    async def run(self, trials: Trials) -> None:
        """Submit everything and wait for it."""
        await trials.all(trials.submit(TrialGroup.of(self.configs(), self.max_steps)))
