"""A study as one of Optuna's, in memory: what is drawn and shown for theirs is drawn and shown for ours."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hippotune.errors import HippoError, InvalidInput, MissingExtra
from hippotune.history.history import History
from hippotune.history.optuna_parameters import Parameters
from hippotune.history.studies import asked_as
from hippotune.history.trial import TrialHistory
from hippotune.sequences.constant import Constant
from hippotune.spaces.optuna_space import SCHEDULES
from hippotune.store.base import Store

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial, TrialState

    from hippotune.study.study import Study


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

    with open_store(study.home, study._store_url, create=False) as catalog:
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
    if schedules := _schedules(history):
        made.set_user_attr(SCHEDULES, schedules)
    return made


def _schedules(history: History) -> list[str]:
    """Return the hyper-parameters that are a schedule in some trial."""
    return sorted(
        {
            name
            for trial in history.trials
            for name, of in trial.config.items()
            if not isinstance(of, Constant)
        }
    )


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
    """Return the whole config, and what else there is no place for in a trial of Optuna's."""
    remarks: dict[str, Any] = {
        name: of.value(0) if isinstance(of, Constant) else repr(of) for name, of in trial.config.items()
    }
    remarks |= {"trial": trial.number, "asked": trial.asked, "trained": trial.trained}
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
