"""Configs proposed by an Optuna sampler from the scores of the highest rung that has enough, as in BOHB.

Scores at different rungs cannot be compared, so there is an Optuna study for each. Trials that have not
parted yet are one observation there, over the parameters that have made a difference so far.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING

from hippotune.sequences.config import Config
from hippotune.spaces.in_force import makes_a_difference
from hippotune.spaces.space import Space
from hippotune.tuners.base import Trial
from hippotune.tuners.optuna_proposer import OptunaProposer
from hippotune.tuners.rungs import RungKind

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import Trial as OptunaTrial


def enough_scores(space: Space) -> int:
    """Return how many scores a model needs: three more than there are parameters, as published for BOHB."""
    return len(space.leaves) + 3


class RungProposer(OptunaProposer):
    """Asks the study of the most steps that has enough scores; until there is one, that of `first_step`."""

    def __init__(
        self, space: Space, sampler: BaseSampler, first_step: int, rungs: RungKind = "states"
    ) -> None:
        super().__init__(space, sampler, first_step)
        self._rungs = rungs
        self._first_step = first_step
        self._seen: set[tuple[Hashable, int]] = set()
        self._heard: set[int] = set()
        self._studies: dict[int, Study] = {first_step: self._study}
        self._asked_at: list[int] = []
        self._scores: Counter[int] = Counter()

    def propose(self) -> Config:
        """Return a proposal from what is known at the highest rung."""
        enough = enough_scores(self._space)
        at = max(
            (step for step, scores in self._scores.items() if scores >= enough), default=self._first_step
        )
        study = self._studies[at]
        study.sampler = self._choose_sampler()
        self._asked_at.append(at)
        return self._accept(*self._ask(study))

    def observe(self, trial: Trial, step: int, score: float, state: Hashable, final: bool = True) -> None:
        """Tell a score to the study of its step, once for each state there."""
        asked, at = self._asked[trial.number], self._asked_at[trial.number]
        scored = math.isfinite(score)
        first = trial.number not in self._heard
        self._heard.add(trial.number)
        if not scored:
            if first:
                self._tell(self._studies[at], asked, score)
            return
        is_new = (state, step) not in self._seen
        self._seen.add((state, step))
        self._scores[step] += is_new
        names = self._in_force(asked, step)
        if first and is_new and step == at and len(names) == len(asked.params):
            self._tell(self._studies[at], asked, score)
            return
        if first:  # nothing to the study that asked: it goes by other scores, or by fewer parameters
            self._studies[at].tell(asked, state=self._optuna.trial.TrialState.FAIL)
        if is_new:
            self._add(step, asked, score, names)

    def _in_force(self, asked: OptunaTrial, step: int) -> list[str]:
        """Return the parameters that have made a difference by a step; all of them, where trials count."""
        if self._rungs == "trials":
            return list(asked.params)
        return [name for name in asked.params if makes_a_difference(self._space, asked.params, name, step)]

    def _add(self, step: int, asked: OptunaTrial, score: float, names: list[str]) -> None:
        if step not in self._studies:
            self._studies[step] = self._new_study()
        like = self._optuna.trial.create_trial(
            value=score,
            params={name: asked.params[name] for name in names},
            distributions={name: asked.distributions[name] for name in names},
        )
        self._studies[step].add_trial(like)

    def _choose_sampler(self) -> BaseSampler:
        """Return the sampler that makes the next proposal."""
        return self._sampler
