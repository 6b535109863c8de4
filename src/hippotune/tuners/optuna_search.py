"""Any of Optuna's samplers as a tuner: configs proposed one after the other, each trained to the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hippotune.spaces.optuna_space import import_optuna
from hippotune.spaces.space import Space
from hippotune.tuners.arguments import check_sampler
from hippotune.tuners.base import Trials
from hippotune.tuners.bracket import Bracket, run_brackets
from hippotune.tuners.optuna_proposer import OptunaProposer
from hippotune.tuners.space_tuner import SpaceTuner

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class OptunaSearch(SpaceTuner):
    """Train `trials` configs proposed by an Optuna sampler for `max_steps` steps, one on each worker.

    ``OptunaSearch(space, "loss", "min", max_steps=20, trials=50,
    sampler=optuna.samplers.TPESampler(seed=0))``

    Without `sampler` it is a TPE sampler seeded with `seed`. Give a sampler a seed, so that running again
    proposes the same configs; every run works on a copy of it.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        max_steps: int,
        trials: int,
        sampler: BaseSampler | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(space, metric, mode, max_steps, trials, seed)
        self.sampler = check_sampler(sampler)

    async def run(self, trials: Trials) -> None:
        """Keep every worker busy with a proposal; tell the sampler what came of each."""
        sampler = self.sampler or import_optuna().samplers.TPESampler(seed=self.seed)
        proposer = OptunaProposer(self.space, sampler, self.max_steps)
        await run_brackets(
            trials, [Bracket([self.max_steps], [self.number])], proposer, self.score, at_once=False
        )
