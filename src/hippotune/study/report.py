"""What came of a tuning: the best trial with its model, every trial, and the work that it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hippotune.errors import HippoError, InvalidInput, MissingExtra
from hippotune.history.exactness import said_of
from hippotune.history.logged import Logged
from hippotune.plan.facts import ProofRecorded, SpanRecorded
from hippotune.plan.node import Node
from hippotune.plan.plan import spans_of
from hippotune.sequences.base import Sequence
from hippotune.sequences.config import Config
from hippotune.sequences.constant import Constant
from hippotune.sequences.values import Value
from hippotune.short import plural
from hippotune.tuners.base import Mode, Result

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go

    from hippotune.study.exports import Origin
    from hippotune.trainers.base import Trainer


@dataclass(frozen=True, slots=True)
class Work:
    """What a tuning asked for and what it took.

    Attributes
    ----------
    steps_requested : int
        Requested steps of all trials, with nothing shared.
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
    proof_steps : int
        Steps that were trained once more, in rehearsals and audits; not among `steps_trained`.
    proof_seconds : float
        What that took of the workers' time; not among `worker_seconds`.
    proof_startup_seconds : float
        What it took beside that to start fresh interpreters, with all that they import and prepare.
    """

    steps_requested: int
    steps_unique: int
    steps_trained: int
    steps_found: int
    worker_seconds: float
    wall_seconds: float
    workers: int
    proof_steps: int = 0
    proof_seconds: float = 0.0
    proof_startup_seconds: float = 0.0

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
            f"{self.worker_seconds:.1f} worker-seconds ({self.utilisation:.0%} busy)\n"
            f"proofs: {self.proofs}"
        )

    @property
    def proofs(self) -> str:
        """What rehearsals and audits took, in words."""
        startup = self.proof_startup_seconds
        starting = f", and {startup:.1f} s to start fresh interpreters" if startup else ""
        steps = plural(self.proof_steps, "step")
        return f"{steps} repeated in {self.proof_seconds:.1f} worker-seconds{starting}"


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
class Best:
    """The best result: the trial, the step at which it was measured, and the model there.

    Attributes
    ----------
    path : Path | None
        Its checkpoint.
    exported : Path | None
        The file to which it was exported at the end of the tuning, as `export` does; None where there was
        nothing to export as plain data.
    """

    number: int
    config: Config
    step: int
    metrics: Mapping[str, float]
    path: Path | None
    _study: str = field(repr=False)
    _load: Callable[..., Trainer] = field(repr=False)
    exported: Path | None = None

    def load(self) -> Trainer:
        """Return a trainer that holds the trained model, made in this process.

        Where its checkpoint is no longer there or damaged, it is trained again.
        """
        return self._load()

    def export(self, path: str | Path) -> Path:
        """Write the model as a file that is read without the trainer's code, and return its path.

        ``torch.load(path, weights_only=True)`` reads it: the `state_dict`s of all modules and optimizers, by
        their paths on the trainer, what the trainer's own ``state_dict()`` returns as "state", where it
        defines that, and the config, step and metrics. A name that ends in ``.safetensors`` gives the
        modules' tensors only.
        """
        from hippotune.study.exports import export

        return export(self.load(), self.origin, path)

    @property
    def origin(self) -> Origin:
        """What an export says about the model."""
        from hippotune.study.exports import Origin

        return Origin(self._study, self.config, self.step, self.metrics)


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
    _trace: Trace = field(repr=False)
    _read_logged: Callable[[Node, int], Logged] = field(repr=False)
    ended_by: Literal["deadline", "budget"] | None = None
    _cut: frozenset[int] = field(default=frozenset(), repr=False)
    _proofs: tuple[ProofRecorded, ...] = field(default=(), repr=False)

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
        columns = Columns(
            ("trial", "step"),
            (name for trial in self.trials for name in trial.config),
            (name for trial in self.trials for metrics in trial.metrics.values() for name in metrics),
        )
        rows: list[list[Any]] = []
        for trial in self.trials:
            for step, metrics in sorted(trial.metrics.items()):
                rows.append(columns.row((trial.number, step), trial.config, metrics, None))
            if trial.error is not None:
                rows.append(columns.row((trial.number, trial.asked), trial.config, {}, trial.error))
        return pandas.DataFrame(rows, columns=columns.names)

    def plot_timeline(self) -> go.Figure:
        """Draw the workers over time, coloured by stage, and how many were busy. Needs the extra ``plot``.

        Where the tuning had nothing to train, because the plan held all results, what was recorded when
        they were trained is drawn, without the pauses in between.
        """
        from hippotune.plots import timeline, without_pauses

        trace, workers = self._trace, self.work.workers
        if trace.spans:
            return timeline(trace.spans, nodes=trace.nodes, workers=workers)
        recorded = without_pauses(spans_of(trace.asks, trace.recorded()))
        return timeline(recorded, nodes=trace.nodes, title="Workers over time, as recorded")

    def plot_tree(self) -> go.Figure:
        """Draw the stage tree of all trials over steps. Needs the extra ``plot``."""
        from hippotune.plots import tree

        return tree(self._trace.asks)

    def plot_curves(self, metric: str | None = None) -> go.Figure:
        """Draw the learning curves of all trials, by the tuner's metric or another one."""
        from hippotune.plots import curves

        return curves(self.trials, metric or self.metric, self.mode)

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
            lines.append(f"  to take up what is suspended: hippo retry {self.study}, then run the same again")
        if self._best is not None:
            best = self._best
            metrics = ", ".join(f"{name} {value:.6g}" for name, value in best.metrics.items())
            lines.append(f"best: trial {best.number} at step {best.step}: {metrics}")
            lines += [f"  {name} = {_shown(sequence)}" for name, sequence in best.config.items()]
            if best.path is not None:
                lines.append(f"model: {best.path}")
            if best.exported is not None:
                lines.append(f"exported: {best.exported}")
        if self.ended_by is not None:
            lines.append(
                f"ended by the {self.ended_by}: {len(self.cut)} of {len(self.trials)} trials were cut short"
            )
        lines.append(f"work: {self.work}")
        lines.append(f"resumed trials: {self.exactness}")
        return "\n".join(lines)


class Columns:
    """The columns of a table of results: what each row is of, hyper-parameters, metrics, and an error.

    Hyper-parameters are called ``config.NAME``, so that one may have a metric's name. Metrics have their own
    names, but for those whose names are taken: they are called ``metric.NAME``.
    """

    def __init__(self, first: tuple[str, ...], config: Iterable[str], metrics: Iterable[str]) -> None:
        self._config = sorted(set(config))
        self._metrics = list(dict.fromkeys(metrics))
        settings = [f"config.{name}" for name in self._config]
        taken = {*first, *settings, "error"}
        measured = [f"metric.{name}" if name in taken else name for name in self._metrics]
        self.names = [*first, *settings, *measured, "error"]

    def row(
        self, first: tuple[Any, ...], config: Config, metrics: Mapping[str, float], error: str | None
    ) -> list[Any]:
        """Return a row; None where there is nothing."""
        settings = [_shown(config[name]) if name in config else None for name in self._config]
        return [*first, *settings, *(metrics.get(name) for name in self._metrics), error]


def _shown(sequence: Sequence) -> Value:
    """Return a constant's value, or how a sequence is written."""
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
