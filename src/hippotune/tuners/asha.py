"""ASHA (Li et al., 2020): successive halving without waiting, with a trial under way for every worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hippotune import checks
from hippotune.spaces.space import Space
from hippotune.tuners.arguments import check_sampler, span
from hippotune.tuners.base import TrialGroup, Trials
from hippotune.tuners.ladder import Ladder
from hippotune.tuners.optuna_proposer import OptunaProposer
from hippotune.tuners.proposer import Listed, Proposer
from hippotune.tuners.rungs import rung_steps
from hippotune.tuners.space_tuner import SpaceTuner, free_workers

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class ASHA(SpaceTuner):
    """Asynchronous successive halving, of the promotion type.

    Whenever a worker is free, a trial among the best 1/reduction of its rung goes on, from the highest rung
    that has one; if there is none, a new config starts. Trials pause at the rungs and may go on at any
    later time.

    With `sampler`, an Optuna sampler (seeded, so that running again gives the same configs), new configs are
    proposed by it, from the results of the bottom rung, which all trials pass.
    """

    _reports: int | None = None

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        min_steps: int,
        max_steps: int,
        reduction: int = 4,
        trials: int | None = None,
        sampler: BaseSampler | None = None,
        seed: int = 0,
    ) -> None:
        self.min_steps, _ = span(min_steps, max_steps)
        self.reduction = checks.whole("reduction", reduction, least=2)
        self.sampler = check_sampler(sampler)
        super().__init__(space, metric, mode, max_steps, trials, seed)

    async def run(self, trials: Trials) -> None:
        """Keep every worker busy until nothing is left to start or to promote."""
        ladder = self._ladder()
        proposer = self._proposer(trials)
        new = ((proposer.propose(), ladder.steps[0]) for _ in range(self.number))
        while True:
            while free_workers(trials) > 0 and (ask := ladder.promote() or next(new, None)):
                trials.submit(TrialGroup((ask,), self._reports))
            if not trials.open and (ask := ladder.promote_last()):
                trials.submit(TrialGroup((ask,), self._reports))
            if not trials.open:
                return
            result = await trials.next()
            score = self.score(result)
            if result.final:
                proposer.observe(result.trial, result.step, score)
                ladder.report(result.trial, score)
            else:
                ladder.passing(result.trial, result.step, score)

    def _ladder(self) -> Ladder:
        return Ladder(rung_steps(self.min_steps, self.max_steps, self.reduction), self.reduction)

    def _proposer(self, trials: Trials) -> Proposer:
        if self.sampler is not None:
            return OptunaProposer(self.space, self.sampler, self.min_steps)
        configs = self.configs()
        trials.foresee(configs, self.max_steps)
        return Listed(configs)
