"""Hyperband (Li et al., 2018): successive halving in brackets, from many short trials to few long ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hippotune import checks
from hippotune.sequences.config import Config
from hippotune.spaces.space import Space
from hippotune.tuners.arguments import check_sampler
from hippotune.tuners.base import Trials
from hippotune.tuners.bracket import Bracket, run_brackets
from hippotune.tuners.proposer import Listed, Proposer
from hippotune.tuners.rung_proposer import RungProposer
from hippotune.tuners.rung_tuner import RungTuner

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


def brackets(min_steps: int, max_steps: int, reduction: int) -> list[list[tuple[int, int]]]:
    """Return Hyperband's brackets as published: for each, (trials, steps) of its rungs.

    The largest s_max is taken for which min_steps·reduction^s_max is at most max_steps. A bracket for each s
    from s_max down to 0 starts ceil((s_max + 1)·reductionˢ / (s + 1)) trials at max_steps / reductionˢ.
    """
    s_max = 0
    while min_steps * reduction ** (s_max + 1) <= max_steps:
        s_max += 1
    table = []
    for s in range(s_max, -1, -1):
        trials = -(-(s_max + 1) * reduction**s // (s + 1))
        table.append([(trials // reduction**i, max_steps // reduction ** (s - i)) for i in range(s + 1)])
    return table


class Hyperband(RungTuner):
    """All brackets of Hyperband, `iterations` times.

    Every bracket draws its configs anew; a finite space that has fewer configs than a bracket starts is
    taken whole. All brackets run together, and trials that are certain to go on do so at once. With
    `sampler`, an Optuna sampler (seeded, so that running again gives the same configs), configs are
    proposed by it as workers become free, from the results of the highest rung that has enough of them.
    Trials that have not parted yet hold one place at a rung, as in `SuccessiveHalving`.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        min_steps: int,
        max_steps: int,
        reduction: int = 3,
        iterations: int = 1,
        sampler: BaseSampler | None = None,
        seed: int = 0,
        rungs: str = "states",
    ) -> None:
        self.iterations = checks.whole("iterations", iterations)
        self.sampler = check_sampler(sampler)
        super().__init__(space, metric, mode, min_steps, max_steps, reduction, None, seed, rungs)

    def brackets(self) -> list[list[tuple[int, int]]]:
        """Return the brackets of one run: for each, (trials, steps) of its rungs."""
        table = brackets(self.min_steps, self.max_steps, self.reduction)
        if self.space.finite:
            most = self.space.up_to(max(rungs[0][0] for rungs in table))
            table = [
                [
                    (max(min(rungs[0][0], most) // self.reduction**i, 1), steps)
                    for i, (_, steps) in enumerate(rungs)
                ]
                for rungs in table
            ]
        return table * self.iterations

    @property
    def number(self) -> int:
        """How many trials all brackets start."""
        return sum(rungs[0][0] for rungs in self.brackets())

    def configs(self) -> list[Config]:
        """Return the configs of all brackets, in order, as they are drawn without a sampler."""
        random = np.random.default_rng(self.seed)
        return [
            config
            for rungs in self.brackets()
            for config in self.space.draw(rungs[0][0], int(random.integers(2**32)))
        ]

    async def run(self, trials: Trials) -> None:
        """Run all brackets, together or as workers become free."""
        proposer = self._proposer(trials)
        table = [
            Bracket([steps for _, steps in rungs], [size for size, _ in rungs], self.rungs, self.seed)
            for rungs in self.brackets()
        ]
        at_once = isinstance(proposer, Listed)
        await run_brackets(trials, table, proposer, self.score, at_once, self.rungs)

    def _proposer(self, trials: Trials) -> Proposer:
        if self.sampler is not None:
            return RungProposer(self.space, self.sampler, self.brackets()[0][0][1], self.rungs)
        return Listed(self.foreseen(trials, sorted({steps for each in self.brackets() for _, steps in each})))

    def _check_trials(self) -> None:
        """The brackets say how many trials there are."""
