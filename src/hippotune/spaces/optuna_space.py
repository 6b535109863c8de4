"""A space as Optuna sees it: named distributions, and its trials as a source of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hippotune.errors import InvalidInput, MissingExtra
from hippotune.spaces.distributions import Int, LogUniform, Number, Uniform
from hippotune.spaces.sources import Source

if TYPE_CHECKING:
    from optuna.trial import Trial as OptunaTrial


def import_optuna() -> Any:
    """Import Optuna, which is an extra."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra(
            "proposing configs with Optuna needs it: pip install 'hippotune[optuna]'"
        ) from None
    return optuna


class OptunaSource(Source):
    """Answers with what an Optuna trial suggests; only what is asked for becomes a parameter of the trial."""

    def __init__(self, trial: OptunaTrial) -> None:
        self._trial = trial

    def number(self, name: str, distribution: Number) -> int | float:
        """Return what is suggested for a number."""
        value: int | float
        match distribution:
            case Uniform(low, high, step):
                value = self._trial.suggest_float(name, low, distribution.nearest(high), step=step)
            case LogUniform(low, high):
                value = self._trial.suggest_float(name, low, high, log=True)
            case Int(low, high, step, log):
                value = self._trial.suggest_int(name, low, distribution.nearest(high), step=step, log=log)
        if value not in distribution:
            raise InvalidInput(
                f"sampler proposed {value!r} for {name!r}; expected a value of {distribution!r}"
            )
        return value

    def choice(self, name: str, options: int) -> int:
        """Return what is suggested for a choice."""
        index: int = self._trial.suggest_categorical(name, range(options))
        if index not in range(options):
            raise InvalidInput(
                f"sampler proposed option {index!r} for {name!r}; expected one from 0 to {options - 1}"
            )
        return index
