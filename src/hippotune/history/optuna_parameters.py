"""What the hyper-parameters of a study are to Optuna, which knows numbers and choices, not sequences.

* A hyper-parameter that is constant in every trial is a number or a choice, under its name.
* Any other one is its family ("lr.family": "Exponential") and its arguments ("lr.value", "lr.gamma"). A trial
  has the arguments of its family, and no others. A family and arguments that never differ are left out.

A number's range is the range of its values. It is logarithmic where they are positive and span an order of
magnitude.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hippotune.history.forms import form_of, leaves_of
from hippotune.history.trial import TrialHistory
from hippotune.sequences.base import Sequence
from hippotune.sequences.constant import Constant
from hippotune.sequences.values import Value, tagged

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_MOST_ARGUMENTS = 16
_LOGARITHMIC = 10

Params = Mapping[str, Value]


class Parameters:
    """The parameters `of` a trial, and the `distributions` of all."""

    def __init__(self, trials: Iterable[TrialHistory]) -> None:
        sequences: dict[str, dict[Sequence, None]] = {}
        for trial in trials:
            for name, sequence in trial.config.items():
                sequences.setdefault(name, {})[sequence] = None
        self._params = {name: dict(_translated(name, list(known))) for name, known in sequences.items()}
        values: dict[str, list[Value]] = {}
        for known in self._params.values():
            for params in known.values():
                for name, value in params.items():
                    values.setdefault(name, []).append(value)
        self._as_text = {name for name, known in values.items() if _equal_across_kinds(known)}
        self.distributions = {
            name: _distribution([str(value) for value in known] if name in self._as_text else known)
            for name, known in values.items()
        }

    def of(self, trial: TrialHistory) -> dict[str, Value]:
        """Return a trial's parameters."""
        params: dict[str, Value] = {}
        for name, sequence in trial.config.items():
            params |= self._params[name][sequence]
        return {name: str(value) if name in self._as_text else value for name, value in params.items()}


def _translated(name: str, sequences: list[Sequence]) -> Iterator[tuple[Sequence, Params]]:
    """Yield the parameters that stand for each of a hyper-parameter's sequences."""
    if all(isinstance(sequence, Constant) for sequence in sequences):
        yield from ((sequence, {name: sequence.value(0)}) for sequence in sequences)
        return
    described = _described(sequences)
    families = {family for family, _ in described}
    differing = _differing(described)
    for sequence, (family, arguments) in zip(sequences, described, strict=True):
        params: dict[str, Value] = {} if len(families) == 1 else {f"{name}.family": family}
        yield (
            sequence,
            params | {f"{name}.{path}": value for path, value in arguments.items() if path in differing},
        )


def _described(sequences: list[Sequence]) -> list[tuple[str, Params]]:
    """Return the family and the arguments of each sequence; no two are the same."""
    found: list[tuple[str, Params]] = []
    numbers: dict[Any, int] = {}
    for sequence in sequences:
        family, arguments = form_of(sequence).label, dict(leaves_of(sequence))
        if len(arguments) > _MOST_ARGUMENTS:  # a table
            family, arguments = repr(sequence), {}
        # Functions are no values: those that differ in them alone are numbered.
        key = family, tuple((path, tagged(value)) for path, value in arguments.items())
        numbers[key] = number = numbers.get(key, 0) + 1
        found.append((family if number == 1 else f"{family} ({number})", arguments))
    return found


def _differing(described: list[tuple[str, Params]]) -> set[str]:
    """Return the arguments that differ, or that only some sequences of a family have."""
    values: dict[str, set[Any]] = {}
    paths: dict[str, list[set[str]]] = {}
    for family, arguments in described:
        paths.setdefault(family, []).append(set(arguments))
        for path, value in arguments.items():
            values.setdefault(path, set()).add(tagged(value))
    in_some = (known[0].union(*known) - known[0].intersection(*known) for known in paths.values())
    return {path for path, known in values.items() if len(known) > 1}.union(*in_some)


def _equal_across_kinds(values: Iterable[Value]) -> bool:
    """Whether values are equal to Optuna that are not: a boolean among numbers."""
    kinds = {type(value) for value in values}
    return bool in kinds and bool(kinds & {int, float})


def _distribution(values: list[Any]) -> BaseDistribution:
    """Return what these values could have been drawn from."""
    from optuna import distributions

    made: BaseDistribution
    if any(isinstance(value, bool | str) for value in values):
        choices = sorted(set(values), key=lambda value: (isinstance(value, str), value))
        made = distributions.CategoricalDistribution(choices)
        return made
    low, high = min(values), max(values)
    log = low > 0 and high / low >= _LOGARITHMIC
    if all(isinstance(value, int) for value in values):
        made = distributions.IntDistribution(low, high, log=log)
    else:
        made = distributions.FloatDistribution(low, high, log=log)
    return made
