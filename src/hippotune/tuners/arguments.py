"""Checks of what tuners are given: each returns its argument, or says in one line what would have fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hippotune import checks
from hippotune.spaces.optuna_space import import_optuna

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler


def check_sampler(sampler: BaseSampler | None) -> BaseSampler | None:
    """Return `sampler` if it is one of Optuna's, or None."""
    if sampler is not None:
        checks.instance("sampler", sampler, import_optuna().samplers.BaseSampler, "one of optuna.samplers")
    return sampler


def check_pruner(pruner: BasePruner | None) -> BasePruner | None:
    """Return `pruner` if it is one of Optuna's, or None."""
    if pruner is not None:
        checks.instance("pruner", pruner, import_optuna().pruners.BasePruner, "one of optuna.pruners")
    return pruner
