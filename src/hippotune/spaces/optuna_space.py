"""Spaces as Optuna sees them, and Optuna's as ours: distributions by name, and trials that answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hippotune.errors import InvalidInput, MissingExtra
from hippotune.sequences.base import Distribution
from hippotune.short import listed
from hippotune.spaces.distributions import Choice, Int, LogUniform, Number, Option, Uniform
from hippotune.spaces.notation import Parameters, resolve
from hippotune.spaces.sources import Source
from hippotune.spaces.space import Space

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import BaseTrial, FrozenTrial

SCHEDULES = "hippo:schedules"
"""An attribute of the studies that `Study.to_optuna` makes: the hyper-parameters that are schedules."""

_MOST_OPTIONS = 32


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

    def __init__(self, trial: BaseTrial) -> None:
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


# From Optuna's studies.


def from_optuna(study: optuna.Study | Mapping[str, BaseDistribution]) -> Space:
    """Return the space that the finished trials of an Optuna study, or named distributions, were drawn from.

    What only some trials have comes with the options of the choice, or of the few whole numbers, that say
    where it is there; an option that no trial has brings nothing. Ranges that moved are taken together.
    """
    optuna = import_optuna()
    if isinstance(study, Mapping):
        return Space({name: _distribution(name, [one]) for name, one in study.items()})
    if not isinstance(study, optuna.Study):
        raise InvalidInput(f"study is {study!r}; expected an Optuna study, or a dict of its distributions")
    if schedules := study.user_attrs.get(SCHEDULES):
        raise InvalidInput(
            f"study {study.study_name!r} was made by to_optuna() of a study in which {listed(schedules)} had "
            "schedules, whose arguments are no hyper-parameters; use the space that it was tuned with"
        )
    trials = finished(study)
    names = list(dict.fromkeys(name for trial in trials for name in trial.distributions))
    if not names:
        raise InvalidInput(
            f"study {study.study_name!r} has no finished trial with parameters, which would say what was "
            "suggested; expected one that has run, or a dict of its distributions"
        )
    distributions = {
        name: _distribution(name, [trial.distributions[name] for trial in trials if name in trial.params])
        for name in names
    }
    return Space(_parameters(trials, distributions))


def finished(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials of a study that are complete or pruned."""
    states = import_optuna().trial.TrialState
    found: list[FrozenTrial] = study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))
    return found


def _distribution(name: str, given: Sequence[Any]) -> Distribution:
    """Return what covers distributions of one name."""
    kinds, last = import_optuna().distributions, given[-1]
    if any(type(one) is not type(last) for one in given):
        raise InvalidInput(f"{name!r} is drawn from {given[0]} and from {last}; expected one kind")
    if isinstance(last, kinds.CategoricalDistribution):
        if any(None in one.choices for one in given):
            raise InvalidInput(
                f"{name!r} has None among its choices in Optuna, {last.choices!r}; expected numbers, texts "
                "and booleans: give None another name there, such as 'none', or write the space yourself"
            )
        return Choice(*dict.fromkeys(choice for one in given for choice in one.choices))
    low, high = min(one.low for one in given), max(one.high for one in given)
    if isinstance(last, kinds.IntDistribution):
        return Int(low, high, last.step, last.log)
    return LogUniform(low, high) if last.log else Uniform(low, high, last.step)


def _parameters(
    trials: Sequence[FrozenTrial], distributions: Mapping[str, Distribution]
) -> dict[str, Distribution]:
    """Return what all trials have, with the rest below the options that bring it."""
    missing = [name for name in distributions if any(name not in trial.params for trial in trials)]
    options = {name: found for name, of in distributions.items() if (found := _options(of))}
    brought: dict[str, list[str]] = {}
    for name in missing:
        brought.setdefault(_brought_by(name, trials, options), []).append(name)

    def made(name: str) -> Distribution:
        if name not in brought:
            return distributions[name]
        own: dict[Any, dict[str, Distribution]] = {value: {} for value in options[name]}
        for other in brought[name]:
            for value in {trial.params[name] for trial in trials if other in trial.params}:
                own[value][other] = made(other)
        return Choice(*(Option(value, others) if others else value for value, others in own.items()))

    return {name: made(name) for name in distributions if name not in missing}


def _options(distribution: Distribution) -> Sequence[Any]:
    """Return the values that may bring others: those of a choice, or a few whole numbers."""
    match distribution:
        case Choice(options):
            return options
        case Int(low, high, step) if high - low < _MOST_OPTIONS * step:
            return range(low, high + 1, step)
        case _:
            return ()


def _brought_by(name: str, trials: Sequence[FrozenTrial], candidates: Iterable[str]) -> str:
    """Return the parameter whose value says whether another one is there."""
    present = [trial.params for trial in trials if name in trial.params]
    absent = [trial.params for trial in trials if name not in trial.params]
    for candidate in candidates:
        if all(candidate in params for params in present):
            having = {params[candidate] for params in present}
            lacking = {params[candidate] for params in absent if candidate in params}
            if lacking and not lacking & having:
                return candidate
    raise InvalidInput(
        f"{name!r} is in some trials only, and no other parameter says in which; write the space yourself, "
        "with hippo.spaces.Option for what comes with an option"
    )


# Known trials.


def known_trials(space: Space, study: optuna.Study, mode: str) -> tuple[FrozenTrial, ...]:
    """Return the finished trials of an Optuna study as drawn from a space, with scores to be maximized."""
    optuna = import_optuna()
    if not isinstance(study, optuna.Study):
        raise InvalidInput(f"known is {study!r}; expected an Optuna study")
    direction = "MAXIMIZE" if mode == "max" else "MINIMIZE"
    if [each.name for each in study.directions] != [direction]:
        found = ", ".join(each.name.lower() for each in study.directions)
        raise InvalidInput(
            f"known is the study {study.study_name!r}, which is to {found}; mode is {mode!r}, so expected "
            f"one that is to {direction.lower()}"
        )
    return tuple(_known_trial(space, trial, 1 if mode == "max" else -1) for trial in finished(study))


def _known_trial(space: Space, trial: FrozenTrial, sign: int) -> FrozenTrial:
    optuna = import_optuna()
    fixed = optuna.trial.FixedTrial(dict(_answers(space.parameters, trial.params)))
    try:
        resolve(space.parameters, OptunaSource(fixed))
    except ValueError as error:  # what is missing, or out of its range
        raise InvalidInput(f"trial {trial.number} of known is not of the space: {error}") from None
    made: FrozenTrial = optuna.trial.create_trial(
        state=trial.state,
        value=None if trial.value is None else sign * trial.value,
        params=fixed.params,
        distributions=fixed.distributions,
        intermediate_values={step: sign * value for step, value in trial.intermediate_values.items()},
    )
    return made


def _answers(parameters: Parameters, params: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what a space asks for, by its path, where values are what a config has in the end."""
    for name, notation in parameters.items():
        if isinstance(notation, Number) and name in params:
            yield path + name, params[name]
        elif isinstance(notation, Choice) and name in params:
            values = [each.value if isinstance(each, Option) else each for each in notation.options]
            if params[name] in values:
                index = values.index(params[name])
                yield path + name, index
                option = notation.options[index]
                if isinstance(option, Option):
                    yield from _answers(option.parameters, params, f"{path}{name}/{index}/")
