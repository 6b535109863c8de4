"""Any of Optuna's samplers and pruners as a tuner: configs are proposed one by one, as workers are free."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hippotune import checks
from hippotune.sequences.config import Config
from hippotune.spaces.optuna_space import import_optuna, known_trials
from hippotune.spaces.space import Space
from hippotune.tuners.arguments import check_pruner, check_sampler
from hippotune.tuners.base import TrialGroup, Trials
from hippotune.tuners.optuna_proposer import OptunaProposer
from hippotune.tuners.prices import Prices
from hippotune.tuners.rungs import states_of
from hippotune.tuners.space_tuner import SpaceTuner, free_workers

if TYPE_CHECKING:
    import optuna
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

OFFERS = 8
"""Among how many proposals of a sampler a cost-aware search chooses."""


class OptunaSearch(SpaceTuner):
    """Train `trials` configs proposed by an Optuna sampler for `max_steps` steps, one on each worker.

    ``OptunaSearch(space, "loss", "min", max_steps=20, trials=50,
    sampler=optuna.samplers.TPESampler(seed=0))``

    Without `sampler` it is a TPE sampler seeded with `seed`. Give a sampler a seed, so that running again
    proposes the same configs; every run works on a copy of it.

    Parameters
    ----------
    pruner : optuna.pruners.BasePruner, optional
        Stops trials on the way, at every multiple of `every` steps. Trials that have not parted yet are
        stopped together or not at all.
    every : int, optional
        Steps from one report to the next: the sampler hears those too.
    cost_aware : bool
        Whether proposals are chosen by their prices: of eight that the sampler makes, one is drawn with a
        chance that falls with the steps that it shares with no earlier one, at first in proportion, at last
        not at all. The sampler is told that the others failed, which samplers pass over.
    known : optuna.Study, optional
        A study over the same hyper-parameters, of which `hippo.spaces.from_optuna` makes a space: the
        sampler is told of its finished trials before it proposes anything.
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
        *,
        pruner: BasePruner | None = None,
        every: int | None = None,
        cost_aware: bool = False,
        known: optuna.Study | None = None,
    ) -> None:
        super().__init__(space, metric, mode, max_steps, trials, seed)
        self.sampler = check_sampler(sampler)
        self.pruner = check_pruner(pruner)
        self.every = None if every is None else checks.whole("every", every)
        self.cost_aware = checks.yes_or_no("cost_aware", cost_aware)
        self.known = () if known is None else known_trials(self.space, known, self.mode)

    async def run(self, trials: Trials) -> None:
        """Keep every worker busy with a proposal; tell the sampler what came of each."""
        proposer = self._proposer(trials)
        every = self.every if self.pruner is None else self.every or 1
        state_of = states_of(trials, "states")
        pruned: dict[Hashable, bool] = {}
        to_start = self.number
        while True:
            while to_start and free_workers(trials) > 0:
                to_start -= 1
                trials.submit(TrialGroup.of([proposer.propose()], self.max_steps, every))
            if not trials.open:
                return
            result = await trials.next()
            trial, state = result.trial, state_of(result.trial, result.step)
            proposer.observe(trial, result.step, self.score(result), state, result.final)
            if self.pruner is not None and not result.final:
                if state not in pruned:  # what is decided of a state holds for all that come to it
                    pruned[state] = proposer.is_to_be_pruned(trial)
                if pruned[state]:
                    trials.withdraw(trial)
                    proposer.prune(trial)

    def _proposer(self, trials: Trials) -> OptunaProposer:
        sampler = self.sampler or import_optuna().samplers.TPESampler(seed=self.seed)
        if self.cost_aware:
            return _Priced(self, sampler, trials)
        return OptunaProposer(self.space, sampler, self.max_steps, self.pruner, self.known)


class _Priced(OptunaProposer):
    """Chooses among several proposals by their prices."""

    def __init__(self, tuner: OptunaSearch, sampler: BaseSampler, trials: Trials) -> None:
        super().__init__(tuner.space, sampler, tuner.max_steps, tuner.pruner, tuner.known)
        self._trials = trials
        self._number = tuner.number
        self._prices = Prices(tuner.max_steps)
        self._generator = np.random.default_rng(tuner.seed)

    def propose(self) -> Config:
        """Return one of several proposals of the sampler."""
        offers = [self._ask(self._study) for _ in range(OFFERS)]
        alpha = 1 - len(self._asked) / self._number
        # What was asked for before costs nothing, and says nothing.
        prices = np.array([self._prices.of(config) or self._last for _, config in offers], dtype=float)
        weights = prices**-alpha
        chosen = int(self._generator.choice(OFFERS, p=weights / weights.sum()))
        for place, (asked, _) in enumerate(offers):
            if place != chosen:
                self._study.tell(asked, state=self._optuna.trial.TrialState.FAIL)
        asked, config = offers[chosen]
        others = [each for _, each in offers if each != config]
        self._trials.foresee(others, self._last)
        self._prices.foresee(others)
        self._prices.ask(config)
        return self._accept(asked, config)
