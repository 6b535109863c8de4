"""Where new configs come from, one by one: from a list, or from something that learns from scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable

from hippotune.sequences.config import Config
from hippotune.tuners.base import Trial


class Proposer(ABC):
    """Proposes configs in one run of a tuner.

    Contract: the tuner makes a new trial of each proposal, in order, and of nothing else; so the n-th
    proposal is trial n. It asks for no more than there are.
    """

    @abstractmethod
    def propose(self) -> Config:
        """Return the next config."""

    def observe(  # noqa: B027 - optional
        self, trial: Trial, step: int, score: float, state: Hashable, final: bool = True
    ) -> None:
        """Learn what came of a trial: a score of which more is better, minus infinity where there is none.

        Trials with the same `state` at a step have one score there. Where it is not `final`, the trial is
        still under way.
        """


class Listed(Proposer):
    """Proposes what it was given, in order."""

    def __init__(self, configs: Iterable[Config]) -> None:
        self._configs = iter(configs)

    def propose(self) -> Config:
        """Return the next config of the list."""
        return next(self._configs)
