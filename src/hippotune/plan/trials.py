"""Which requests are of one trial, going by what the facts say of them: a number and a config."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)


class TrialNumbers(Generic[C]):
    """The trials of a study, as they are asked for.

    Every tuning numbers its trials from 0, and so does a request for a single config. So a number
    that has been given to another config comes from another tuning; and if its config is known by then, so is
    the trial. Equal configs under numbers of their own are trials of their own.
    """

    def __init__(self) -> None:
        self._owners: dict[int, C] = {}
        self._firsts: dict[C, tuple[int, C]] = {}

    def of(self, number: int, config: C) -> tuple[int, C]:
        """Return the trial of a request, by the number and the config that it was first asked for with."""
        ask = number, config
        is_elsewhere = self._owners.setdefault(number, config) != config
        first = self._firsts.setdefault(config, ask)
        return first if is_elsewhere else ask


def trials_of(asked: Iterable[tuple[int, C]]) -> dict[tuple[int, C], tuple[int, C]]:
    """Return the trial of every (number, config); these come in the order in which they were asked for."""
    trials: TrialNumbers[C] = TrialNumbers()
    return {ask: trials.of(*ask) for ask in asked}
