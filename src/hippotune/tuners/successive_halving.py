"""Successive halving (Jamieson & Talwalkar, 2016): many trials for a few steps, the best of them for more."""

from __future__ import annotations

from hippotune.tuners.base import Trials
from hippotune.tuners.bracket import Bracket, run_brackets
from hippotune.tuners.proposer import Listed
from hippotune.tuners.rung_tuner import RungTuner


class SuccessiveHalving(RungTuner):
    """Of n trials, the best floor(n / reductionⁱ), and at least one, reach rung i.

    The rungs are at min_steps, min_steps·reduction, … and at max_steps. Trials that are certain to go on do
    so before the rung is complete; who goes on does not depend on the order of finish.

    Trials that have not parted yet have one state: they hold one place at a rung and go on together. Where
    the last state that goes on has more trials than there are places, as many of them go on as cost no more
    steps than those places would, spread over the steps where they part; the rest are deferred
    (`report.deferred`).
    ``rungs="trials"`` gives each trial its own place, as published.
    """

    async def run(self, trials: Trials) -> None:
        """Run one bracket."""
        steps = self.rung_steps
        configs = self.foreseen(trials, steps)
        sizes = [max(len(configs) // self.reduction**rung, 1) for rung in range(len(steps))]
        bracket = Bracket(steps, sizes, self.rungs, self.seed)
        await run_brackets(trials, [bracket], Listed(configs), self.score, at_once=True, rungs=self.rungs)
