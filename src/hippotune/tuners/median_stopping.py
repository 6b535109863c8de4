"""Median stopping (Golovin et al., 2017): stop a trial that is below what others had at that step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from hippotune import checks
from hippotune.spaces.space import Space
from hippotune.tuners.base import TrialGroup, Trials
from hippotune.tuners.space_tuner import SpaceTuner, free_workers


class MedianStopping(SpaceTuner):
    """Train to max_steps, but stop trials that are below the median on the way.

    At every multiple of `every` steps from `warmup_steps` on, a trial is stopped if the best score that it
    has had is below the median of the scores that completed trials had at the same step. Nothing is stopped
    before `startup_trials` are complete. The rule is the one of Optuna's MedianPruner.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        max_steps: int,
        every: int = 1,
        warmup_steps: int = 0,
        startup_trials: int = 5,
        trials: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(space, metric, mode, max_steps, trials, seed)
        self.every = checks.whole("every", every)
        self.warmup_steps = checks.whole("warmup_steps", warmup_steps, least=0)
        self.startup_trials = checks.whole("startup_trials", startup_trials, least=0)

    async def run(self, trials: Trials) -> None:
        """Keep every worker busy with a trial; withdraw those that fall behind."""
        configs = self.configs()
        trials.foresee(configs, self.max_steps)
        to_start = iter(configs)
        curves: defaultdict[int, dict[int, float]] = defaultdict(dict)
        completed: list[dict[int, float]] = []
        while True:
            while free_workers(trials) > 0 and (config := next(to_start, None)):
                trials.submit(TrialGroup.of([config], self.max_steps, self.every))
            if not trials.open:
                return
            result = await trials.next()
            curve = curves[result.trial.number]
            curve[result.step] = self.score(result)
            if not result.final:
                if self._falls_behind(curve, result.step, completed):
                    trials.withdraw(result.trial)
            elif not result.failed:
                completed.append(curve)

    def _falls_behind(self, curve: Mapping[int, float], step: int, completed: list[dict[int, float]]) -> bool:
        if not completed or len(completed) < self.startup_trials or step < self.warmup_steps:
            return False
        best = max(curve.values())
        if best == -math.inf:
            return True
        others = [other[step] for other in completed if other.get(step, -math.inf) > -math.inf]
        return bool(others) and best < float(np.median(others))
