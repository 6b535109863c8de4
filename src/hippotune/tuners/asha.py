"""ASHA (Li et al., 2020): successive halving without waiting, with a trial under way for every worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hippotune.spaces.space import Space
from hippotune.tuners.arguments import check_sampler
from hippotune.tuners.base import TrialGroup, Trials
from hippotune.tuners.ladder import Asks, Ladder
from hippotune.tuners.optuna_proposer import OptunaProposer
from hippotune.tuners.proposer import Listed, Proposer
from hippotune.tuners.rung_tuner import RungTuner
from hippotune.tuners.rungs import states_of
from hippotune.tuners.space_tuner import free_workers

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class ASHA(RungTuner):
    """Asynchronous successive halving, of the promotion type.

    Whenever a worker is free, a trial among the best 1/reduction of its rung goes on, from the highest rung
    that has one; if there is none, a new config starts. Trials pause at the rungs and may go on at any
    later time.

    With `sampler`, an Optuna sampler (seeded, so that running again gives the same configs), new configs are
    proposed by it. It hears every result: a trial that pauses at a rung is pruned there, and one that was
    trained to the end is complete.

    Trials that have not parted yet hold one place at a rung and go on together; ``rungs="trials"`` gives each
    its own place, as published.
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
        rungs: str = "states",
    ) -> None:
        self.sampler = check_sampler(sampler)
        super().__init__(space, metric, mode, min_steps, max_steps, reduction, trials, seed, rungs)

    async def run(self, trials: Trials) -> None:
        """Keep every worker busy until nothing is left to start or to promote."""
        ladder = self._ladder()
        proposer = self._proposer(trials)
        state_of = states_of(trials, self.rungs)
        new: Iterator[Asks] = (((proposer.propose(), ladder.steps[0]),) for _ in range(self.number))
        while True:
            while free_workers(trials) > 0 and (asks := ladder.promote() or next(new, ())):
                trials.submit(TrialGroup(asks, self._reports))
            if not trials.open and (asks := ladder.promote_last()):
                trials.submit(TrialGroup(asks, self._reports))
            if not trials.open:
                break
            result = await trials.next()
            trial, score = result.trial, self.score(result)
            state = state_of(trial, ladder.rung_of(trial) if result.final else result.step)
            proposer.observe(trial, result.step, score, state, result.final)
            if result.final:
                ladder.report(trial, score, state)
            else:
                ladder.passing(trial, result.step, score)
        trials.defer(ladder.deferred)

    def _ladder(self) -> Ladder:
        return Ladder(self.rung_steps, self.reduction, self.seed)

    def _proposer(self, trials: Trials) -> Proposer:
        if self.sampler is not None:
            return OptunaProposer(self.space, self.sampler, self.max_steps)
        return Listed(self.foreseen(trials, self.rung_steps))
