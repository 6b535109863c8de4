"""Median stopping: stop a trial whose best score so far is below the median of what others had by that step.

There are two rules of that name. Optuna's median pruner compares with the values of completed trials at the
very step; Vizier (Golovin et al., 2017) with the averages of all that they reported up to it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import Any, Literal, get_args

import numpy as np

from hippotune import checks
from hippotune.spaces.space import Space
from hippotune.tuners.base import TrialGroup, Trials
from hippotune.tuners.rungs import check_rungs, states_of
from hippotune.tuners.space_tuner import SpaceTuner, free_workers

Rule = Literal["optuna", "vizier"]
Curve = dict[int, tuple[float, Hashable]]
"""A trial's scores by step, with the states that have them."""


class MedianStopping(SpaceTuner):
    """Train to max_steps, but stop trials that are below the median on the way.

    At every multiple of `every` steps from `warmup_steps` on, a trial is stopped if the best score that it
    has had is below the median over completed trials: of the scores that they had at the same step, as in
    Optuna's MedianPruner; with ``rule="vizier"``, of the averages of all their scores up to that step.
    Nothing is stopped before `startup_trials` are complete.

    Trials that have not parted yet have one vote in the median, and are stopped together or not at all;
    ``rungs="trials"`` gives each its own.
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
        rungs: str = "states",
        rule: Rule = "optuna",
    ) -> None:
        super().__init__(space, metric, mode, max_steps, trials, seed)
        self.rungs = check_rungs(rungs)
        self.every = checks.whole("every", every)
        self.warmup_steps = checks.whole("warmup_steps", warmup_steps, least=0)
        self.startup_trials = checks.whole("startup_trials", startup_trials, least=0)
        self.rule = checks.one_of("rule", rule, get_args(Rule))

    async def run(self, trials: Trials) -> None:
        """Keep every worker busy with a trial; withdraw those that fall behind."""
        configs = self.configs()
        trials.foresee(configs, self.max_steps)
        to_start = iter(configs)
        state_of = states_of(trials, self.rungs)
        curves: defaultdict[int, Curve] = defaultdict(dict)
        completed: list[Curve] = []
        stopped: dict[Hashable, bool] = {}
        while True:
            while free_workers(trials) > 0 and (config := next(to_start, None)):
                trials.submit(TrialGroup.of([config], self.max_steps, self.every))
            if not trials.open:
                return
            result = await trials.next()
            curve, state = curves[result.trial.number], (state_of(result.trial, result.step), result.step)
            curve[result.step] = (self.score(result), state)
            if not result.final:
                if state not in stopped:  # what is decided of a state holds for all that come to it
                    stopped[state] = self._falls_behind(curve, result.step, completed)
                if stopped[state]:
                    trials.withdraw(result.trial)
            elif not result.failed:
                completed.append(curve)

    def _falls_behind(self, curve: Curve, step: int, completed: list[Curve]) -> bool:
        if not completed or len(completed) < self.startup_trials or step < self.warmup_steps:
            return False
        best = max(score for score, _ in curve.values())
        if best == -math.inf:
            return True
        votes = dict(vote for other in completed if (vote := self._vote(other, step)) is not None)
        others = [score for score in votes.values() if score > -math.inf]
        return bool(others) and best < float(np.median(others))

    def _vote(self, curve: Curve, step: int) -> tuple[Hashable, float] | None:
        """Return what a completed trial is compared by at a step, and the state that has it."""
        if self.rule == "optuna":
            score, state = curve.get(step, (-math.inf, None))
            return (state, score) if step in curve else None
        by_then = [each for at, each in curve.items() if at <= step]
        scores = [score for score, _ in by_then if score > -math.inf]
        if not scores:
            return None
        return by_then[-1][1], float(np.mean(scores))
