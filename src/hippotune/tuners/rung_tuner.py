"""What tuners by halving have in common: rungs from `min_steps` to `max_steps`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.spaces.space import Space
from hippotune.tuners.rungs import check_rungs, rung_steps
from hippotune.tuners.space_tuner import SpaceTuner


class RungTuner(SpaceTuner):
    """A tuner that compares trials at rungs, and lets one in `reduction` go on."""

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        min_steps: int,
        max_steps: int,
        reduction: int = 4,
        trials: int | None = None,
        seed: int = 0,
        rungs: str = "states",
    ) -> None:
        self.rungs = check_rungs(rungs)
        self.min_steps = checks.whole("min_steps", min_steps)
        self.reduction = checks.whole("reduction", reduction, least=2)
        if checks.whole("max_steps", max_steps) < self.min_steps:
            raise InvalidInput(
                f"max_steps is {max_steps}, below min_steps, which is {min_steps}; expected at least that"
            )
        super().__init__(space, metric, mode, max_steps, trials, seed)

    @property
    def rung_steps(self) -> list[int]:
        """The steps at which trials are compared; the last is `max_steps`."""
        return rung_steps(self.min_steps, self.max_steps, self.reduction)
