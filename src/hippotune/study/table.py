"""Results as a table, for other programs.

Hyper-parameters are called ``config.NAME``, so that one may have a metric's name. Metrics have their own
names, but for those whose names are taken: they are called ``metric.NAME``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hippotune.sequences.constant import written

if TYPE_CHECKING:
    from hippotune.study.report import TrialReport


class ResultTable:
    """A row for every trial and step measured, and one for every trial that failed.

    With `study`, the first column has that name.
    """

    def __init__(self, trials: Sequence[TrialReport], study: str | None = None) -> None:
        self._trials = trials
        self._study = [] if study is None else [study]
        self._config = sorted({name for trial in trials for name in trial.config})
        metrics = (name for trial in trials for measured in trial.metrics.values() for name in measured)
        self._metrics = list(dict.fromkeys(metrics))
        first = ["trial", "step"] if study is None else ["study", "trial", "step"]
        first += [f"config.{name}" for name in self._config]
        taken = {*first, "error"}
        measured = [f"metric.{name}" if name in taken else name for name in self._metrics]
        self.columns = [*first, *measured, "error"]

    def rows(self) -> Iterator[list[Any]]:
        """Yield the rows, trial by trial and step by step; None where there is nothing."""
        for trial in self._trials:
            for step, metrics in sorted(trial.metrics.items()):
                yield self._row(trial, step, metrics, None)
            if trial.error is not None:
                yield self._row(trial, trial.asked, {}, trial.error)

    def _row(
        self, trial: TrialReport, step: int, metrics: Mapping[str, float], error: str | None
    ) -> list[Any]:
        config = [written(trial.config[name]) if name in trial.config else None for name in self._config]
        measured = [metrics.get(name) for name in self._metrics]
        return [*self._study, trial.number, step, *config, *measured, error]
