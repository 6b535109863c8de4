"""Which requests are of one trial, going by what the facts say of them: a number and a config."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

C = TypeVar("C", bound=Hashable)


def trials_of(asked: Iterable[tuple[int, C]]) -> dict[tuple[int, C], tuple[int, C]]:
    """Return the trial of every (number, config), which are given in the order in which they were asked for.

    Every tuning numbers its trials from 0, and so does a request for a single config. So a number
    that has been given to another config comes from another tuning; and if its config is known by then, so is
    the trial. Equal configs under numbers of their own are trials of their own.
    """
    trials: dict[tuple[int, C], tuple[int, C]] = {}
    owners: dict[int, C] = {}
    firsts: dict[C, tuple[int, C]] = {}
    for ask in asked:
        number, config = ask
        is_elsewhere = owners.setdefault(number, config) != config
        first = firsts.setdefault(config, ask)
        trials[ask] = first if is_elsewhere else ask
    return trials
