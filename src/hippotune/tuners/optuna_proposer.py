"""Configs proposed by an Optuna sampler, which hears everything that comes of them.

Everything lives in memory and is made anew in every run, from copies of the sampler and the pruner. Every
score is reported to Optuna at its step. A trial that has come to the last step is complete; one that has
stopped before, for now or for good, is pruned there, and may be taken further later. One without any score
has been pruned before it reported anything; samplers that look at such trials take them for the worst.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from hippotune.errors import InvalidInput
from hippotune.sequences.config import Config
from hippotune.spaces.notation import resolve
from hippotune.spaces.optuna_space import OptunaSource, import_optuna
from hippotune.spaces.space import MOST_REJECTED, Space
from hippotune.tuners.base import Trial
from hippotune.tuners.proposer import Proposer

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as OptunaTrial


class OptunaProposer(Proposer):
    """Asks a sampler, and tells it the scores of trials, which are complete at the step `last`."""

    def __init__(
        self,
        space: Space,
        sampler: BaseSampler,
        last: int,
        pruner: BasePruner | None = None,
        known: Iterable[FrozenTrial] = (),
    ) -> None:
        self._optuna = import_optuna()
        self._space = space
        self._sampler: BaseSampler = copy.deepcopy(sampler)
        self._pruner = copy.deepcopy(pruner)
        self._last = last
        self._study = self._new_study()
        self._study.add_trials(known)
        self._asked: list[OptunaTrial] = []
        self._told: set[OptunaTrial] = set()

    def propose(self) -> Config:
        """Return the sampler's next proposal."""
        return self._accept(*self._ask(self._study))

    def observe(self, trial: Trial, step: int, score: float, state: Hashable, final: bool = True) -> None:
        """Report a score; where the trial pauses there, it is pruned, and complete at the last step."""
        asked = self._asked[trial.number]
        if math.isfinite(score):
            asked.report(score, step)
        if final:
            self._tell(self._study, asked, score, is_complete=step == self._last)

    def is_to_be_pruned(self, trial: Trial) -> bool:
        """Whether the pruner would stop a trial now."""
        return bool(self._asked[trial.number].should_prune())

    def prune(self, trial: Trial) -> None:
        """A trial is not trained any further."""
        self._tell(self._study, self._asked[trial.number], -math.inf)

    def _tell(self, study: Study, asked: OptunaTrial, score: float, is_complete: bool = True) -> None:
        states = self._optuna.trial.TrialState
        is_complete &= math.isfinite(score)
        if asked not in self._told:
            self._told.add(asked)
            study.tell(
                asked, score if is_complete else None, states.COMPLETE if is_complete else states.PRUNED
            )
        else:
            state = states.COMPLETE if is_complete else states.PRUNED
            values = [score] if math.isfinite(score) else None
            study._storage.set_trial_state_values(asked._trial_id, state, values)

    def _accept(self, asked: OptunaTrial, config: Config) -> Config:
        """Make a proposal that was asked for the next trial."""
        self._asked.append(asked)
        return config

    def _ask(self, study: Study) -> tuple[OptunaTrial, Config]:
        """Ask until `where` accepts what is proposed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            for _ in range(MOST_REJECTED):
                asked = study.ask()
                values = resolve(self._space.parameters, OptunaSource(asked))
                if self._space.accepts(values):
                    return asked, self._space.config(values)
                self._tell(study, asked, -math.inf)
        raise InvalidInput(
            f"where rejects {MOST_REJECTED} proposals in a row; expected a space that it mostly accepts"
        )

    def _new_study(self) -> Study:
        verbosity = self._optuna.logging.get_verbosity()
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)
        try:  # making a study is no news to the user of a tuner
            study: Study = self._optuna.create_study(
                direction="maximize", sampler=self._sampler, pruner=self._pruner, storage=_new_storage()
            )
        finally:
            self._optuna.logging.set_verbosity(verbosity)
        return study


def _new_storage() -> BaseStorage:
    """Return a storage in memory in which a trial that was pruned can go on."""
    from optuna.storages import InMemoryStorage

    class Resumable(InMemoryStorage):  # type: ignore[misc, unused-ignore]
        def check_trial_is_updatable(self, trial_id: int, trial_state: object) -> None:
            """Let every trial change: one that waits at a rung may be promoted at any time."""

    storage: BaseStorage = Resumable()
    return storage
