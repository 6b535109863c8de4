"""Successive halving (Jamieson & Talwalkar, 2016): many trials for a few steps, the best of them for more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hippotune import checks
from hippotune.spaces.space import Space
from hippotune.tuners.arguments import span
from hippotune.tuners.base import Trials
from hippotune.tuners.bracket import Bracket, run_brackets
from hippotune.tuners.proposer import Listed
from hippotune.tuners.rungs import rung_steps
from hippotune.tuners.space_tuner import SpaceTuner


class SuccessiveHalving(SpaceTuner):
    """Of n trials, the best floor(n / reductionⁱ), and at least one, reach rung i.

    The rungs are at min_steps, min_steps·reduction, … and at max_steps. Trials that are certain to go on do
    so before the rung is complete; who goes on does not depend on the order of finish.
    """

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
    ) -> None:
        self.min_steps, _ = span(min_steps, max_steps)
        self.reduction = checks.whole("reduction", reduction, least=2)
        super().__init__(space, metric, mode, max_steps, trials, seed)

    async def run(self, trials: Trials) -> None:
        """Run one bracket."""
        configs = self.configs()
        trials.foresee(configs, self.max_steps)
        steps = rung_steps(self.min_steps, self.max_steps, self.reduction)
        sizes = [max(len(configs) // self.reduction**rung, 1) for rung in range(len(steps))]
        await run_brackets(trials, [Bracket(steps, sizes)], Listed(configs), self.score, at_once=True)
