"""Grid search: every config of a finite space, to the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hippotune.spaces.space import Space
from hippotune.tuners.base import TrialGroup, Trials
from hippotune.tuners.space_tuner import SpaceTuner


class GridSearch(SpaceTuner):
    """Train every config of `space` for `max_steps` steps, all in one trial group."""

    def __init__(self, space: Space | Mapping[str, Any], metric: str, mode: str, max_steps: int) -> None:
        super().__init__(space, metric, mode, max_steps)

    async def run(self, trials: Trials) -> None:
        """Submit everything and wait for it."""
        await trials.all(trials.submit(TrialGroup.of(self.configs(), self.max_steps)))
