"""What came of a tuning: the best trial with its model, every trial, and the work that it took."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hippotune.errors import HippoError, InvalidInput, MissingExtra
from hippotune.logged import Logged
from hippotune.plan.facts import SpanRecorded
from hippotune.plan.node import Node
from hippotune.sequences.config import Config
from hippotune.tuners.base import Mode, Result

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go

    from hippotune.trainers.base import Trainer


@dataclass(frozen=True, slots=True)
class Work:
    """What a tuning asked for and what it took.

    Attributes
    ----------
    steps_requested : int
        Steps of all trials, each as far as it was asked, with nothing shared.
    steps_unique : int
        The same with every shared step counted once.
    steps_trained : int
        Steps that workers really trained during this tuning.
    steps_found : int
        Unique steps that were there before, from earlier runs or other studies.
    worker_seconds : float
        Time that workers were held by leases: of a whole slot each, however many leases shared it.
    wall_seconds : float
        Time from the start of the tuning to its end.
    """

    steps_requested: int
    steps_unique: int
    steps_trained: int
    steps_found: int
    worker_seconds: float
    wall_seconds: float
    workers: int

    @property
    def merge_rate(self) -> float:
        """Steps without sharing for every step with it."""
        return self.steps_requested / self.steps_unique if self.steps_unique else 1.0

    @property
    def steps_saved(self) -> int:
        """Steps that did not have to be trained."""
        return self.steps_requested - self.steps_trained

    @property
    def utilisation(self) -> float:
        """Which part of the workers' time was at work, from 0 to 1."""
        available = self.workers * self.wall_seconds
        return min(self.worker_seconds / available, 1.0) if available > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"{self.steps_requested:,} steps asked, {self.steps_trained:,} trained, "
            f"{self.steps_saved:,} saved (merge rate {self.merge_rate:.2f})\n"
            f"time: {self.wall_seconds:.1f} s on {self.workers} workers, "
            f"{self.worker_seconds:.1f} worker-seconds ({self.utilisation:.0%} busy)"
        )


@dataclass(frozen=True, slots=True)
class TrialReport:
    """One trial: how far it was asked, and everything that was measured, by step."""

    number: int
    config: Config
    asked: int
    metrics: Mapping[int, Mapping[str, float]]
    error: str | None = None

    @property
    def step(self) -> int:
        """The furthest step with metrics; 0 where there is none."""
        return max(self.metrics, default=0)


@dataclass(frozen=True, slots=True)
class Best:
    """The best result: the trial, the step at which it was measured, and the model there."""

    number: int
    config: Config
    step: int
    metrics: Mapping[str, float]
    path: Path | None
    _load: Callable[[], Trainer] = field(repr=False)

    def load(self) -> Trainer:
        """Return a trainer that holds the trained model, made in this process.

        Where its checkpoint is no longer there or damaged, it is trained again.
        """
        return self._load()


@dataclass(frozen=True, slots=True)
class Trace:
    """What pictures of a tuning are drawn from: worker time, how far each trial was asked, and the plan."""

    spans: tuple[SpanRecorded, ...]
    asks: tuple[tuple[Node, int], ...]
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What `Study.tune` returns."""

    study: str
    metric: str
    mode: Mode
    trials: list[TrialReport]
    work: Work
    _best: Best | None = field(repr=False)
    _trace: Trace = field(repr=False)
    _read_logged: Callable[[Node, int], Logged] = field(repr=False)
    ended_by: Literal["deadline", "budget"] | None = None
    _cut: frozenset[int] = field(default=frozenset(), repr=False)

    @property
    def cut(self) -> list[TrialReport]:
        """The trials that a deadline or a budget kept from where they were asked to go."""
        return [trial for trial in self.trials if trial.number in self._cut]

    @property
    def best(self) -> Best:
        """The best result of all trials, at any step that was asked for."""
        if self._best is None:
            errors = [trial.error for trial in self.trials if trial.error]
            why = f"; the first error:\n{errors[0]}" if errors else ""
            if self.ended_by is not None:
                why = f" before the {self.ended_by} was reached" + why
            raise HippoError(f"study {self.study!r} has no best trial: none has a result{why}")
        return self._best

    @property
    def failed(self) -> list[TrialReport]:
        """The trials that failed."""
        return [trial for trial in self.trials if trial.error is not None]

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
        """Return a row for every trial and step measured: trial, step, hyper-parameters, metrics, error."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("report.frame() needs pandas: pip install 'hippotune[pandas]'") from error
        rows: list[dict[str, Any]] = []
        for trial in self.trials:
            shown = {name: _shown(sequence) for name, sequence in trial.config.items()}
            base = {"trial": trial.number, **shown}
            for step, metrics in sorted(trial.metrics.items()):
                rows.append({**base, "step": step, **metrics, "error": None})
            if trial.error is not None:
                rows.append({**base, "step": trial.asked, "error": trial.error})
        return pandas.DataFrame(rows)

    def plot_timeline(self) -> go.Figure:
        """Draw the workers over time, coloured by stage, and how many were busy. Needs the extra ``plot``."""
        from hippotune.plots import timeline

        return timeline(self._trace.spans, nodes=self._trace.nodes, workers=self.work.workers)

    def plot_tree(self) -> go.Figure:
        """Draw the stage tree of all trials over steps. Needs the extra ``plot``."""
        from hippotune.plots import tree

        return tree(self._trace.asks)

    def plot_curves(self, metric: str | None = None) -> go.Figure:
        """Draw the learning curves of all trials, by the tuner's metric or another one."""
        from hippotune.plots import curves

        return curves(self.trials, metric or self.metric, self.mode)

    def __str__(self) -> str:
        lines = [f"study {self.study}: {len(self.trials)} trials, {len(self.failed)} failed"]
        if self._best is not None:
            best = self._best
            metrics = ", ".join(f"{name} {value:.6g}" for name, value in best.metrics.items())
            lines.append(f"best: trial {best.number} at step {best.step}: {metrics}")
            lines += [f"  {name} = {_shown(sequence)}" for name, sequence in best.config.items()]
            if best.path is not None:
                lines.append(f"model: {best.path}")
        if self.ended_by is not None:
            lines.append(
                f"ended by the {self.ended_by}: {len(self.cut)} of {len(self.trials)} trials were cut short"
            )
        lines.append(f"work: {self.work}")
        return "\n".join(lines)


def _shown(sequence: Any) -> Any:
    """Return a constant's value, or how a sequence is written."""
    from hippotune.sequences.constant import Constant

    return sequence.value(0) if isinstance(sequence, Constant) else repr(sequence)


def best_result(results: list[Result], metric: str, mode: Mode) -> Result | None:
    """Return the best final result: by metric, then the one trained further, then the earlier trial."""
    finals = [result for result in results if result.final and not result.failed]
    return max(
        finals,
        key=lambda result: (result.score(metric, mode), result.step, -result.trial.number),
        default=None,
    )


def trial_reports(results: list[Result], asked: Mapping[Any, int]) -> list[TrialReport]:
    """Gather results by trial, in the trials' order; reports along the way are included."""
    metrics: dict[int, dict[int, Mapping[str, float]]] = {}
    errors: dict[int, str] = {}
    for result in results:
        if result.metrics is not None:
            metrics.setdefault(result.trial.number, {})[result.step] = result.metrics
        elif result.error is not None:
            errors[result.trial.number] = result.error
    return [
        TrialReport(trial.number, trial.config, step, metrics.get(trial.number, {}), errors.get(trial.number))
        for trial, step in asked.items()
    ]
