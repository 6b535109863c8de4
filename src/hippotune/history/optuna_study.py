"""A study as one of Optuna's, in memory: what is drawn and shown for theirs is drawn and shown for ours.

Optuna knows numbers and choices, not sequences. So a hyper-parameter becomes

* a number or a choice, where it is constant in every trial;
* its arguments that differ ("lr.gamma"), where its sequences are all of one form;
* otherwise a choice between sequences, as they are written. Where they are too many to be a choice, it is one
  between their forms, and the arguments that differ within a form come with it ("lr.Exponential.gamma").

A parameter's range is the range of its values. It is logarithmic where they are positive and span an order of
magnitude.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hippotune.errors import HippoError, InvalidInput, MissingExtra
from hippotune.history.forms import Form, form_of, leaves_of
from hippotune.history.history import History
from hippotune.history.studies import asked_as
from hippotune.history.trial import TrialHistory
from hippotune.sequences.base import Sequence
from hippotune.sequences.constant import Constant, written
from hippotune.sequences.values import Value
from hippotune.store.base import Store

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

    from hippotune.study.study import Study

_MOST_CHOICES = 64
_LOGARITHMIC = 10

Params = Mapping[str, Value]


def to_optuna(study: Study, store: Store | None, metric: str | None, mode: str | None) -> optuna.Study:
    """Return a study as it is in its store, or in `store`, if one is given."""
    if store is not None:
        return optuna_study(History(store, study.name, study.share), metric, mode)
    if study.executor.virtual:
        raise HippoError(
            f"study {study.name!r} has nothing to show: what is trained in virtual time is kept only while "
            "the study is open; call to_optuna() after tune() and before close()"
        )
    from hippotune.store.catalog import open_store

    with open_store(study.home, study.store_url, create=False) as catalog:
        key, asks = study.key, (study.name, study.share)
        known = [info for info in catalog.studies() if info.key == key and asked_as(info) == asks]
        tuned_for = (known[0].metric, known[0].mode) if known else (None, None)
        history = History(catalog.view(key), *asks, tuned_for)
    return optuna_study(history, metric, mode)


def optuna_study(history: History, metric: str | None, mode: str | None) -> optuna.Study:
    """Return a study with a trial for each trial, in their order, ranked by one metric."""
    library = _import_optuna()
    aim = history.aim(metric, mode)
    if aim is None:
        raise InvalidInput(
            "metric is None; expected the metric to rank trials by, and 'max' or 'min' as mode"
        )
    metric, mode = aim
    direction = "maximize" if mode == "max" else "minimize"
    verbosity = library.logging.get_verbosity()
    library.logging.set_verbosity(library.logging.WARNING)
    try:  # making a study in memory is no news
        made: optuna.Study = library.create_study(study_name=history.study, direction=direction)
    finally:
        library.logging.set_verbosity(verbosity)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", library.exceptions.ExperimentalWarning)
        made.set_metric_names([metric])
    made.add_trials(_trials(history, metric))
    return made


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtra("study.to_optuna() needs Optuna: pip install 'hippotune[optuna]'") from error
    return optuna


# Trials.


def _trials(history: History, metric: str) -> Iterator[FrozenTrial]:
    create_trial = _import_optuna().trial.create_trial
    parameters = Parameters(history.trials)
    furthest = max((trial.asked for trial in history.trials), default=0)
    clock = Clock(history)
    for trial in history.trials:
        value = (trial.at(trial.asked) or {}).get(metric)
        state = _state(trial, value, furthest)
        params = parameters.of(trial)
        made: FrozenTrial = create_trial(
            state=state,
            value=value if state.is_finished() and state.name != "FAIL" else None,
            params=params,
            distributions={name: parameters.distributions[name] for name in params},
            user_attrs=_remarks(trial),
            intermediate_values={
                step: metrics[metric] for step, metrics in trial.metrics().items() if metric in metrics
            },
        )
        made.datetime_start, ended = clock.times(trial)
        made.datetime_complete = ended if state.is_finished() else None
        yield made


def _state(trial: TrialHistory, value: float | None, furthest: int) -> TrialState:
    name = "PRUNED" if trial.asked < furthest else "COMPLETE"
    if trial.state == "unfinished":
        name = "RUNNING"
    elif trial.state in ("failed", "suspended") or value is None or not math.isfinite(value):
        name = "FAIL"
    state: TrialState = _import_optuna().trial.TrialState[name]
    return state


def _remarks(trial: TrialHistory) -> dict[str, Any]:
    """Return what there is no place for in a trial of Optuna's."""
    remarks: dict[str, Any] = {"trial": trial.number, "asked": trial.asked, "trained": trial.trained}
    remarks |= {name: repr(of) for name, of in trial.config.items() if not isinstance(of, Constant)}
    if trial.error is not None:
        remarks["error"] = trial.error
    return remarks


class Clock:
    """When trials were trained, on their own or together with others."""

    def __init__(self, history: History) -> None:
        self._spans: dict[int, list[tuple[int, float, float]]] = {}
        for span in history.spans:
            self._spans.setdefault(span.node, []).append((span.first, span.began, span.ended))
        self._began = min((span.began for span in history.spans), default=0.0)

    def times(self, trial: TrialHistory) -> tuple[datetime, datetime]:
        """Return when the first and when the last step on a trial's way was trained."""
        began, ended, reach = math.inf, -math.inf, trial.asked
        for node in trial.node.lineage():
            for first, start, end in self._spans.get(node.id, ()):
                if first < reach:
                    began, ended = min(began, start), max(ended, end)
            reach = node.start
        if began > ended:  # its time was not recorded
            began = ended = self._began
        return datetime.fromtimestamp(began), datetime.fromtimestamp(ended)


# Parameters.


class Parameters:
    """What the trials' hyper-parameters are to Optuna: `of` a trial, and their `distributions`."""

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
        self._mixed = {name for name, known in values.items() if _are_mixed(known)}
        self.distributions = {
            name: _distribution([str(value) for value in known] if name in self._mixed else known)
            for name, known in values.items()
        }

    def of(self, trial: TrialHistory) -> dict[str, Value]:
        """Return a trial's parameters."""
        params: dict[str, Value] = {}
        for name, sequence in trial.config.items():
            params |= self._params[name][sequence]
        return {name: str(value) if name in self._mixed else value for name, value in params.items()}


def _translated(name: str, sequences: list[Sequence]) -> Iterator[tuple[Sequence, Params]]:
    """Yield the parameters that stand for each of a hyper-parameter's sequences."""
    if all(isinstance(sequence, Constant) for sequence in sequences):
        yield from ((sequence, {name: sequence.value(0)}) for sequence in sequences)
        return
    forms: dict[Form, list[Sequence]] = {}
    for sequence in sequences:
        forms.setdefault(form_of(sequence), []).append(sequence)
    if len(sequences) == 1 or 1 < len(forms) <= len(sequences) <= _MOST_CHOICES:
        yield from ((sequence, {name: str(written(sequence))}) for sequence in sequences)
        return
    for form, alike in forms.items():
        leaves = [dict(leaves_of(sequence)) for sequence in alike]
        differing = [path for path in leaves[0] if len({leaf[path] for leaf in leaves}) > 1]
        prefix = name if len(forms) == 1 else f"{name}.{form.label}"
        choice = {} if len(forms) == 1 else {name: form.label}
        for sequence, leaf in zip(alike, leaves, strict=True):
            yield sequence, choice | {f"{prefix}.{path}": leaf[path] for path in differing}


def _are_mixed(values: Iterable[Value]) -> bool:
    """Whether values are of kinds that have no order together."""
    return len({"number" if type(value) in (int, float) else type(value).__name__ for value in values}) > 1


def _distribution(values: list[Any]) -> BaseDistribution:
    """Return what these values, all of one kind, could have been drawn from."""
    distributions = _import_optuna().distributions
    if isinstance(values[0], (bool, str)):
        made: BaseDistribution = distributions.CategoricalDistribution(sorted(set(values)))
        return made
    low, high = min(values), max(values)
    log = low > 0 and high / low >= _LOGARITHMIC
    if all(isinstance(value, int) for value in values):
        made = distributions.IntDistribution(low, high, log=log)
    else:
        made = distributions.FloatDistribution(low, high, log=log)
    return made
