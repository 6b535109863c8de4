"""Configs proposed by an Optuna sampler, which learns from scores.

Everything lives in memory and is made anew in every run, from a copy of the sampler. To Optuna a trial
without a score has been pruned before it reported anything; samplers that look at such trials take them for
the worst.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Hashable
from typing import TYPE_CHECKING

from hippotune.errors import InvalidInput
from hippotune.sequences.config import Config
from hippotune.spaces.notation import resolve
from hippotune.spaces.optuna_space import OptunaSource, import_optuna
from hippotune.spaces.space import MOST_REJECTED, Space
from hippotune.tuners.base import Trial
from hippotune.tuners.proposer import Proposer

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import Trial as OptunaTrial


class OptunaProposer(Proposer):
    """Asks a sampler, and tells it the scores at one step, which all trials pass."""

    def __init__(self, space: Space, sampler: BaseSampler, step: int) -> None:
        self._optuna = import_optuna()
        self._space = space
        self._sampler: BaseSampler = copy.deepcopy(sampler)
        self._step = step
        self._study = self._new_study()
        self._asked: list[OptunaTrial] = []
        self._unheard: set[int] = set()

    def propose(self) -> Config:
        """Return the sampler's next proposal."""
        return self._ask(self._study)

    def observe(self, trial: Trial, step: int, score: float, state: Hashable) -> None:
        """Tell the sampler what came of its proposal."""
        if trial.number in self._unheard and (step == self._step or not math.isfinite(score)):
            self._unheard.remove(trial.number)
            self._tell(self._study, self._asked[trial.number], score)

    def _tell(self, study: Study, asked: OptunaTrial, score: float) -> None:
        if math.isfinite(score):
            study.tell(asked, score)
        else:
            study.tell(asked, state=self._optuna.trial.TrialState.PRUNED)

    def _ask(self, study: Study) -> Config:
        """Ask until `where` accepts what is proposed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            for _ in range(MOST_REJECTED):
                asked = study.ask()
                values = resolve(self._space.parameters, OptunaSource(asked))
                if self._space.accepts(values):
                    self._unheard.add(len(self._asked))
                    self._asked.append(asked)
                    return self._space.config(values)
                self._tell(study, asked, -math.inf)
        raise InvalidInput(
            f"where rejects {MOST_REJECTED} proposals in a row; expected a space that it mostly accepts"
        )

    def _new_study(self) -> Study:
        verbosity = self._optuna.logging.get_verbosity()
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)
        try:  # making a study is no news to the user of a tuner
            study: Study = self._optuna.create_study(direction="maximize", sampler=self._sampler)
        finally:
            self._optuna.logging.set_verbosity(verbosity)
        return study
