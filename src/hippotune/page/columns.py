"""A plan's facts as columns of plain values, in the shape that the page draws from.

Tables only ever grow, one row for each fact, in the order of the facts. So what came after a moment is the
rest of every column from there on, and a snapshot is what came after nothing. A page that holds a snapshot,
and puts what came after it behind its columns, has what a later snapshot holds.

Configs and the sequences in them are numbered, and each is told once. Numbers that are not finite are None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from hippotune import short
from hippotune.history.forms import form_of, leaves_of
from hippotune.plan.facts import (
    CheckpointDropped,
    CheckpointKept,
    CheckpointPinned,
    Fact,
    FailureCleared,
    FailureRecorded,
    MetricsRecorded,
    NodeAdded,
    ProofRecorded,
    RequestMade,
    SpanRecorded,
    StudyBegan,
    StudyEnded,
    StudyStopped,
    TrialStopped,
)
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.plan.trials import TrialNumbers
from hippotune.sequences.base import Sequence
from hippotune.sequences.config import Config
from hippotune.sequences.constant import Constant

Delta = dict[str, Any]
"""Columns by table and name; only what there is anything of."""

_TABLES = {
    "names": ("name",),
    "forms": ("name", "label", "leaves"),
    "sequences": ("form", "text", "value", "arguments"),
    "configs": ("sequences",),
    "studies": ("name",),
    "nodes": ("parent", "start", "config", "changes"),
    "trials": ("study", "number", "config"),
    "asks": ("trial", "step", "node"),
    "results": ("order", "node", "step"),
    "failures": ("order", "node", "step", "kind", "error"),
    "checkpoints": ("node", "step", "bytes", "kept"),
    "spans": ("worker", "lease", "node", "kind", "first", "last", "began", "ended", "width"),
    "tunings": ("study", "number", "time", "metric", "mode", "tuner"),
    "ends": ("study", "number", "time", "outcome", "text"),
    "stops": ("study", "trial", "time", "by"),
    "pins": ("node", "step", "pinned"),
    "proofs": ("kind", "node", "step", "outcome", "text"),
}


class Columns:
    """Takes facts in, in their order, and says what there is from a mark on.

    `asked` are the trials in the order of their rows: the study, the number in it, and the config; `reached`
    is where each of them ends.
    """

    def __init__(self) -> None:
        self._plan = Plan()
        self._tables: dict[str, dict[str, list[Any]]] = {
            table: {name: [] for name in names} for table, names in _TABLES.items()
        }
        self._metrics: dict[str, list[float | None]] = {}
        self._numbers: dict[tuple[str, object], int] = {}
        self._trials: dict[str, TrialNumbers[Config]] = {}
        self._own: dict[Config, Node] = {}
        self.asked: list[tuple[str, int, Config]] = []
        self.reached: list[tuple[Node, int]] = []

    def take(self, facts: Iterable[Fact]) -> None:
        """Take in more facts."""
        for fact in facts:
            self._take(fact)

    def mark(self) -> Mapping[str, int]:
        """Return where all tables end now."""
        return {table: len(next(iter(columns.values()))) for table, columns in self._tables.items()}

    def since(self, mark: Mapping[str, int] | None = None) -> Delta:
        """Return what there is from a mark on; without one, everything."""
        begins = mark or {}
        delta: Delta = {}
        for table, columns in self._tables.items():
            begin = begins.get(table, 0)
            if len(next(iter(columns.values()))) > begin:
                delta[table] = {name: column[begin:] for name, column in columns.items()}
        if "results" in delta:
            begin = begins.get("results", 0)
            columns = {name: self._padded(name)[begin:] for name in self._metrics}
            delta["results"]["metrics"] = {
                name: column for name, column in columns.items() if column.count(None) < len(column)
            }
        return delta

    def _padded(self, name: str) -> list[float | None]:
        column = self._metrics[name]
        column += [None] * (len(self._tables["results"]["node"]) - len(column))
        return column

    # One row for each fact.

    def _take(self, fact: Fact) -> None:
        self._plan.apply(fact)
        match fact:
            case MetricsRecorded(order, position, metrics, _):
                for name, value in metrics.items():
                    self._metrics.setdefault(name, [])
                    self._padded(name).append(finite(value))
                self._append("results", order, *position)
            case NodeAdded(node, parent, start, config, isolation_key):
                if not isolation_key:
                    self._own[config] = self._plan[node]
                above = None if parent is None else self._plan[parent].config
                row = (start, self._config(config), changes(config, above, start))
                self._append("nodes", -1 if parent is None else parent, *row)
            case FailureRecorded(order, position, error, suspended, evaluation, _):
                kind = "suspended" if suspended else "evaluation" if evaluation else "failed"
                self._append("failures", order, *position, kind, error)
            case FailureCleared(order, position, _):
                self._append("failures", order, *position, "cleared", "")
            case CheckpointKept(position, checkpoint):
                self._append("checkpoints", *position, checkpoint.bytes, 2 if checkpoint.interim else 1)
            case CheckpointDropped(position):
                self._append("checkpoints", *position, 0, 0)
            case RequestMade():
                self._ask(fact)
            case SpanRecorded():
                times = round(fact.began, 3), round(fact.ended, 3)
                steps = fact.first, fact.last
                self._append(
                    "spans", fact.worker, fact.lease, fact.node, fact.kind, *steps, *times, fact.width
                )
            case ProofRecorded(kind, position, outcome, text):
                self._append("proofs", kind, *position, outcome, text)
            case StudyBegan(study, number, time, metric, mode, definition):
                tuner = str(definition.get("tuner", ""))
                self._append("tunings", self._study(study), number, time, metric, mode, tuner)
            case StudyEnded(study, number, time, outcome, text):
                self._append("ends", self._study(study), number, time, outcome, text)
            case StudyStopped(study, time, by):
                self._append("stops", self._study(study), -1, time, by)
            case TrialStopped(study, trial, time, by):
                self._append("stops", self._study(study), trial, time, by)
            case CheckpointPinned(position, _, pinned):
                self._append("pins", *position, pinned)
            case _:
                pass

    def _study(self, name: str) -> int:
        return self._number("studies", name, name)

    def _ask(self, fact: RequestMade) -> None:
        node = self._own.get(fact.config)
        if node is None or fact.step <= node.start:
            node = self._find(fact)
        study = self._study(fact.study)
        trial = fact.trial, fact.config
        if not node.isolation_key:
            trial = self._trials.setdefault(fact.study, TrialNumbers()).of(*trial)
        row = self._number("trials", (study, trial), study, trial[0], self._config(trial[1]))
        if row == len(self.asked):
            self.asked.append((fact.study, *trial))
            self.reached.append((node, fact.step))
        elif fact.step > self.reached[row][1]:
            self.reached[row] = node, fact.step
        self._append("asks", row, fact.step, node.id)

    def _find(self, fact: RequestMade) -> Node:
        """Return where a trial ends; trials of a study that shares nothing have trees of their own."""
        try:
            return self._plan.find(fact.config, fact.step)
        except LookupError:
            return self._plan.find(fact.config, fact.step, str(fact.trial))

    def _config(self, config: Config) -> int:
        known = self._numbers.get(("configs", config))
        if known is not None:
            return known
        sequences = [self._sequence(name, config[name]) for name in config.names]
        return self._number("configs", config, sequences)

    def _sequence(self, name: str, sequence: Sequence) -> int:
        key = name, sequence
        known = self._numbers.get(("sequences", key))
        if known is not None:
            return known
        named = self._number("names", name, name)
        form, leaves = form_of(sequence), dict(leaves_of(sequence))
        value = sequence.value(0) if isinstance(sequence, Constant) else None
        formed = self._number("forms", (named, form), named, form.label, list(leaves))
        arguments = [_plain(leaf) for leaf in leaves.values()]
        return self._number("sequences", key, formed, short.sequence(sequence), _plain(value), arguments)

    def _number(self, table: str, key: object, *row: object) -> int:
        """Return the number of a row, which is added where there is none by this key yet."""
        known = self._numbers.get((table, key))
        if known is None:
            known = self._numbers[table, key] = self._append(table, *row)
        return known

    def _append(self, table: str, *row: object) -> int:
        columns = self._tables[table]
        number = 0
        for column, cell in zip(columns.values(), row, strict=True):
            number = len(column)
            column.append(cell)
        return number


def changes(config: Config, above: Config | None, start: int) -> list[str]:
    """Say which values a config has at a step and the one above it has not; all of them, where none is above.

    A sequence that goes on changing is named, in place of the value that it happens to have there.
    """
    return [
        f"{name} {short.in_force(sequence, start, start + 1)}"
        for name, sequence in config.items()
        if above is None or name not in above or _differ(sequence, above[name], start)
    ]


def _differ(one: Sequence, other: Sequence, step: int) -> bool:
    return one is not other and one.value(step) != other.value(step)


def snapshot(facts: Iterable[Fact]) -> Delta:
    """Return facts as columns."""
    columns = Columns()
    columns.take(facts)
    return columns.since()


def finite(value: float) -> float | None:
    """Return a number as JSON has it: None where it is not finite."""
    return value if math.isfinite(value) else None


def _plain(value: object) -> object:
    """Return a value as JSON has it."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return finite(value)
    return str(value)
