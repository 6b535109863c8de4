"""What came of a tuning: the best trial with its model, every trial, and the work that it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hippotune.errors import HippoError, InvalidInput, MissingExtra
from hippotune.history.exactness import said_of
from hippotune.history.logged import Logged
from hippotune.plan.facts import ProofRecorded, SpanRecorded
from hippotune.plan.node import Node
from hippotune.plan.plan import spans_of
from hippotune.sequences.config import Config
from hippotune.sequences.constant import written
from hippotune.short import plural
from hippotune.study.best import Best
from hippotune.study.table import ResultTable
from hippotune.study.work import Work
from hippotune.tuners.base import Mode, Result

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go


@dataclass(frozen=True, slots=True)
class TrialReport:
    """One trial: how far it was asked, and everything that was measured, by step.

    `error` says why it failed, or why it is `suspended`.
    """

    number: int
    config: Config
    asked: int
    metrics: Mapping[int, Mapping[str, float]]
    error: str | None = None
    suspended: bool = False

    @property
    def step(self) -> int:
        """The furthest step with metrics; 0 where there is none."""
        return max(self.metrics, default=0)


@dataclass(frozen=True, slots=True)
class Trace:
    """What pictures of a tuning are drawn from: worker time, how far each trial was asked, and the plan.

    `spans` is the worker time of the tuning itself; `recorded` returns all that the plan has of its trials.
    """

    spans: tuple[SpanRecorded, ...]
    asks: tuple[tuple[Node, int], ...]
    nodes: tuple[Node, ...]
    recorded: Callable[[], Iterable[SpanRecorded]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Report:
    """What `Study.tune` returns."""

    study: str
    metric: str
    mode: Mode
    trials: list[TrialReport]
    work: Work
    _best: Best | None = field(repr=False)
    _read_trace: Callable[[], Trace] = field(repr=False)
    _read_logged: Callable[[Node, int], Logged] = field(repr=False)
    ended_by: Literal["deadline", "budget"] | None = None
    _cut: frozenset[int] = field(default=frozenset(), repr=False)
    _proofs: tuple[ProofRecorded, ...] = field(default=(), repr=False)
    _deferred: frozenset[int] = field(default=frozenset(), repr=False)

    @property
    def _trace(self) -> Trace:
        return self._read_trace()

    @property
    def cut(self) -> list[TrialReport]:
        """The trials that a deadline or a budget kept from where they were asked to go."""
        return [trial for trial in self.trials if trial.number in self._cut]

    @property
    def deferred(self) -> list[TrialReport]:
        """The trials that a tuner set aside while others of the same state went on: they were not beaten."""
        return [trial for trial in self.trials if trial.number in self._deferred]

    @property
    def best(self) -> Best:
        """The best of all results that the tuner has heard.

        Those on the way count too, also of trials that were withdrawn or cut short.
        """
        if self._best is None:
            errors = [trial.error for trial in self.trials if trial.error]
            why = f"; the first error:\n{errors[0]}" if errors else ""
            if self.ended_by is not None:
                why = f" before the {self.ended_by} was reached" + why
            raise HippoError(f"study {self.study!r} has no best trial: none has a result{why}")
        return self._best

    @property
    def exactness(self) -> str:
        """What was proved: whether resumed trials are the very trials that they go on with."""
        return said_of(self._proofs)

    @property
    def failed(self) -> list[TrialReport]:
        """The trials that failed."""
        return [trial for trial in self.trials if trial.error is not None and not trial.suspended]

    @property
    def suspended(self) -> list[TrialReport]:
        """The trials that were lost with their workers again and again, and wait for ``hippo retry``."""
        return [trial for trial in self.trials if trial.suspended]

    def logged(self, trial: int | TrialReport) -> Logged:
        """Return what training logged along a trial, by name: steps, from the first on, with their numbers.

        Steps that the trial shares with others are included. What is read is what the store has now.
        """
        number = trial.number if isinstance(trial, TrialReport) else trial
        for each, (node, step) in zip(self.trials, self._trace.asks, strict=True):
            if each.number == number:
                return self._read_logged(node, step)
        raise InvalidInput(f"trial is {trial!r}; expected one of the {len(self.trials)} in report.trials")

    def frame(self) -> pandas.DataFrame:
        """Return a row for every trial and step measured, and one for every trial that failed.

        The columns are ``trial``, ``step``, a ``config.NAME`` for every hyper-parameter, the metrics by their
        names, and ``error``.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("report.frame() needs pandas: pip install 'hippotune[pandas]'") from error
        table = ResultTable(self.trials)
        return pandas.DataFrame(table.rows(), columns=table.columns)

    def plot_timeline(self) -> go.Figure:
        """Draw the workers over time, coloured by stage, and how many were busy. Needs the extra ``plot``.

        All training of the report's trials is drawn. Where some of it was recorded earlier, by a run before
        this one or by another study, the pauses in between are left out; otherwise this is what the workers
        did during the tuning.
        """
        from hippotune.plots import timeline, without_pauses

        trace = self._trace
        recorded = spans_of(trace.asks, trace.recorded())
        if set(recorded) <= set(trace.spans):
            return timeline(trace.spans, nodes=trace.nodes, workers=self.work.workers)
        return timeline(without_pauses(recorded), nodes=trace.nodes, title="Workers over time, as recorded")

    def plot_tree(self) -> go.Figure:
        """Draw the stage tree of all trials over steps. Needs the extra ``plot``."""
        from hippotune.plots import tree

        return tree(self._trace.asks)

    def plot_curves(self, metric: str | None = None) -> go.Figure:
        """Draw the learning curves of all trials, by the tuner's metric or another one."""
        from hippotune.plots import curves

        return curves(self.trials, self.metric if metric is None else metric, self.mode)

    def _repr_html_(self) -> str:
        """Return the report for notebooks."""
        from hippotune.view.html import report_html

        return report_html(self, self._best, self._trace.asks)

    def __str__(self) -> str:
        lines = [f"study {self.study}: {len(self.trials)} trials, {len(self.failed)} failed"]
        if self.suspended:
            lines[0] += f", {len(self.suspended)} suspended"
            first = self.suspended[0]
            lines.append(f"suspended: trial {first.number}: {str(first.error).splitlines()[0]}")
            lines.append(f"  to go on with them: hippo retry {self.study}, then run the same again")
        if self._best is not None:
            best = self._best
            metrics = ", ".join(f"{name} {value:.6g}" for name, value in best.metrics.items())
            lines.append(f"best: trial {best.number} at step {best.step}: {metrics}")
            lines += [f"  {name} = {written(sequence)}" for name, sequence in best.config.items()]
            if best.path is not None:
                lines.append(f"model: {best.path}")
            if best.exported is not None:
                lines.append(f"exported: {best.exported}")
        if self.deferred:
            lines.append(
                f"deferred: {plural(len(self.deferred), 'trial')}, equal so far to others that were trained "
                "further; hippo.TrialList trains them too"
            )
        if self.ended_by is not None:
            lines.append(
                f"ended by the {self.ended_by}: {len(self.cut)} of {len(self.trials)} trials were cut short"
            )
        lines.append(f"work: {self.work.told(is_whole=not (self.failed or self.cut))}")
        lines.append(f"resumed trials: {self.exactness}")
        return "\n".join(lines)


def best_result(results: list[Result], metric: str, mode: Mode) -> Result | None:
    """Return the best result: by metric, then the one trained further, then the earlier trial."""
    return max(
        (result for result in results if not result.failed),
        key=lambda result: (result.score(metric, mode), result.step, -result.trial.number),
        default=None,
    )


def trial_reports(results: list[Result], asked: Mapping[Any, int]) -> list[TrialReport]:
    """Gather results by trial, in the trials' order; reports along the way are included."""
    metrics: dict[int, dict[int, Mapping[str, float]]] = {}
    errors: dict[int, tuple[str | None, bool]] = {}
    for result in results:
        if result.metrics is not None:
            metrics.setdefault(result.trial.number, {})[result.step] = result.metrics
        elif result.error is not None:
            errors[result.trial.number] = (result.error, result.suspended)
    return [
        TrialReport(
            trial.number,
            trial.config,
            step,
            metrics.get(trial.number, {}),
            *errors.get(trial.number, (None, False)),
        )
        for trial, step in asked.items()
    ]
