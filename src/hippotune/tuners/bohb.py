"""BOHB (Falkner et al., 2018): Hyperband's brackets, filled by a model of the good scores."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hippotune import checks
from hippotune.spaces.optuna_space import import_optuna
from hippotune.spaces.space import Space
from hippotune.tuners.base import Trials
from hippotune.tuners.hyperband import Hyperband
from hippotune.tuners.proposer import Proposer
from hippotune.tuners.rung_proposer import RungProposer, enough_scores
from hippotune.tuners.rungs import RungKind

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

CANDIDATES = 64
"""How many candidates the best proposal is chosen from, as published."""


class BOHB(Hyperband):
    """Hyperband whose configs come from Optuna's multivariate TPE sampler.

    The model is made from the scores of the highest rung that has at least three more of them than there are
    parameters. A share of `random_fraction` is drawn at random all the same. A state is one observation,
    however many trials share it, and over the parameters that have made a difference so far.
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
        random_fraction: float = 1 / 3,
        seed: int = 0,
        rungs: str = "states",
    ) -> None:
        super().__init__(
            space, metric, mode, min_steps, max_steps, reduction, iterations, seed=seed, rungs=rungs
        )
        self.random_fraction = checks.number("random_fraction", random_fraction, least=0, most=1)

    def _proposer(self, trials: Trials) -> Proposer:
        return _BOHBProposer(
            self.space, self.brackets()[0][0][1], self.random_fraction, self.seed, self.rungs
        )


class _BOHBProposer(RungProposer):
    """Asks the model or, now and then, chance."""

    def __init__(
        self, space: Space, first_step: int, random_fraction: float, seed: int, rungs: RungKind
    ) -> None:
        samplers = import_optuna().samplers
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", import_optuna().exceptions.ExperimentalWarning)
            model = samplers.TPESampler(
                n_startup_trials=enough_scores(space),
                n_ei_candidates=CANDIDATES,
                multivariate=True,
                group=True,
                constant_liar=True,
                seed=seed,
            )
        super().__init__(space, model, first_step, rungs)
        self._random_fraction = random_fraction
        self._random_sampler = samplers.RandomSampler(seed=seed)
        self._generator = np.random.default_rng(seed)

    def _choose_sampler(self) -> BaseSampler:
        by_chance = self._generator.random() < self._random_fraction
        return self._random_sampler if by_chance else super()._choose_sampler()
