"""Facts as rows, and back. Every row of a fact begins with its plan and its number in the plan's log.

Configs are numbered in the order in which they are first stored, and so are the sequences in them: a study of
100,000 trials is made of few sequences, and each is written, parsed and held in memory once.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from hippotune.errors import StoreError
from hippotune.plan.facts import (
    Checkpoint,
    CheckpointDropped,
    CheckpointKept,
    CheckpointPinned,
    Fact,
    FailureCleared,
    FailureRecorded,
    MetricsRecorded,
    NodeAdded,
    NumbersRecorded,
    Position,
    ProofRecorded,
    RequestMade,
    SpanRecorded,
    StateRecorded,
    StudyBegan,
    StudyEnded,
    StudyStopped,
    TrialStopped,
)
from hippotune.plan.numbers import Columns
from hippotune.protocol.wire import decode_fact, encode_fact
from hippotune.sequences.base import Sequence as HyperSequence
from hippotune.sequences.config import Config
from hippotune.sequences.constant import Constant
from hippotune.sequences.encoding import from_json
from hippotune.store.base import Written
from hippotune.store.check_values import DAMAGED, Row, check_value
from hippotune.store.schema import (
    ACTIONS,
    CONFIGS,
    KEPT,
    LOG,
    LOGGED,
    NODES,
    PROOFS,
    REQUESTS,
    RESULTS,
    SEQUENCES,
    SPANS,
)

RequestKey = tuple[str, int, int, int]
"""A study, a trial's number, the number of its config, and a step."""
_span_values = attrgetter(
    "worker", "lease", "node", "kind", "first", "last", "began", "ended", "width", "seconds"
)
# What results are that are neither metrics nor what keeps training from going on for good.
_SUSPENDED, _EVALUATION, _CLEARED = "suspended", "evaluation", "cleared"
NOTE = "note"  # the kind of a state that is still to be compared
_write_json = json.JSONEncoder(separators=(",", ":"), default=float).encode


class Numbers:
    """The numbers that a plan's stored sequences and configs have; `last` is that of its last fact."""

    def __init__(self, sequences: Sequence[HyperSequence], configs: Sequence[Config], last: int) -> None:
        self.sequences: dict[HyperSequence, int] = {sequence: n for n, sequence in enumerate(sequences)}
        self.configs: dict[Config, int] = {config: n for n, config in enumerate(configs)}
        self.last = last

    def keys_of(self, facts: Iterable[Fact]) -> list[RequestKey]:
        """Return the keys of those requests whose configs are stored: they may be stored themselves."""
        return [
            (storable(fact.study), fact.trial, number, fact.step)
            for fact in facts
            if isinstance(fact, RequestMade) and (number := self.configs.get(fact.config)) is not None
        ]

    def take_in(self, batch: Batch) -> None:
        """Count what a batch has numbered, now that it is stored."""
        self.sequences |= batch.sequences
        self.configs |= batch.configs
        self.last += len(batch.written.facts)


class Batch:
    """The rows that a list of facts amounts to, with new numbers for what is new in them.

    Requests that are `known`, and those that come twice, are no new facts. `given` is the list, and `written`
    what of it is new.
    """

    def __init__(
        self, plan: int, numbers: Numbers, facts: Sequence[Fact], known: Container[RequestKey] = ()
    ) -> None:
        self._plan = plan
        self._numbers = numbers
        self._next = numbers.last + 1
        self._known = known
        self._asked: set[RequestKey] = set()
        self.given = facts
        self.written = Written(self._next, [])
        self.sequences: dict[HyperSequence, int] = {}
        self.configs: dict[Config, int] = {}
        self.checkpoints: dict[Position, Checkpoint | None] = {}
        self.compared: list[Position] = []
        self.rows: dict[sa.TableClause, list[Row]] = {table: [] for table in (SEQUENCES, CONFIGS, *LOG)}
        self._add(facts)

    def _add(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            match fact:
                case MetricsRecorded(order, position, metrics, time):
                    written = _write_json(metrics if isinstance(metrics, dict) else dict(metrics))
                    self._append(fact, RESULTS, order, *position, written, None, None, _real(time))
                case NodeAdded(node, parent, start, config, isolation_key):
                    values = (node, parent, start, self._number(config), storable(isolation_key))
                    self._append(fact, NODES, *values)
                case CheckpointKept(position, checkpoint):
                    self.checkpoints[position] = checkpoint
                    self._append(fact, KEPT, encode_fact(fact).decode())
                case CheckpointDropped(position):
                    self.checkpoints[position] = None
                    self._append(fact, KEPT, encode_fact(fact).decode())
                case RequestMade(study, trial, config, step):
                    key = (storable(study), trial, self._number(config), step)
                    if key not in self._known and key not in self._asked:
                        self._asked.add(key)
                        self._append(fact, REQUESTS, *key)
                case SpanRecorded():
                    *numbered, began, ended, width, seconds = _span_values(fact)
                    self._append(fact, SPANS, *numbered, *map(_real, (began, ended, width, seconds)))
                case NumbersRecorded(node, steps, columns, time):
                    self._append(fact, LOGGED, *_logged_row(node, steps, columns), _real(time))
                case StateRecorded() | ProofRecorded():
                    if isinstance(fact, ProofRecorded) and fact.kind == "audit":
                        self.compared.append(fact.position)
                    self._append(fact, PROOFS, *_proof_row(fact))
                case FailureRecorded(order, position, error, suspended, evaluation, time):
                    kind = _SUSPENDED if suspended else _EVALUATION if evaluation else None
                    self._append(fact, RESULTS, order, *position, None, storable(error), kind, _real(time))
                case FailureCleared(order, position, time):
                    self._append(fact, RESULTS, order, *position, None, None, _CLEARED, _real(time))
                case StudyBegan() | StudyEnded() | StudyStopped() | TrialStopped() | CheckpointPinned():
                    self._append(fact, ACTIONS, encode_fact(fact).decode())

    def _append(self, fact: Fact, table: sa.TableClause, *row: Any) -> None:
        """Number a fact, and add its row to a table."""
        self.rows[table].append((self._plan, self._next, *row))
        self.written.facts.append(fact)
        self._next += 1

    def _number(self, config: Config) -> int:
        number = self._numbers.configs.get(config, self.configs.get(config))
        if number is None:
            body = {name: self._number_sequence(sequence) for name, sequence in config.items()}
            number = self.configs[config] = len(self._numbers.configs) + len(self.configs)
            self.rows[CONFIGS].append((self._plan, number, _write_json(body)))
        return number

    def _number_sequence(self, sequence: HyperSequence) -> int:
        number = self._numbers.sequences.get(sequence, self.sequences.get(sequence))
        if number is None:
            plain = sequence.arguments[0] if isinstance(sequence, Constant) else sequence.to_json()
            number = self.sequences[sequence] = len(self._numbers.sequences) + len(self.sequences)
            self.rows[SEQUENCES].append((self._plan, number, _write_json(plain)))
        return number


def _real(number: float | None) -> float | None:
    """Return a number as databases give it back: SQLite has no -0.0."""
    return None if number is None else float(number) + 0.0


def storable(text: str) -> str:
    """Return text without what databases cannot hold: NUL and lone surrogates, which tracebacks may have."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def sequences_from(rows: Sequence[Row]) -> list[HyperSequence]:
    """Make sequences from the rows (body,), in the order of their numbers."""
    return [from_json(body) for body in _parsed([body for (body,) in rows])]


def configs_from(rows: Sequence[Row], sequences: Sequence[HyperSequence]) -> list[Config]:
    """Make configs from the rows (body,), in the order of their numbers."""
    bodies: list[Mapping[str, int]] = _parsed([body for (body,) in rows])
    return [Config({name: sequences[number] for name, number in body.items()}) for body in bodies]


def nodes_from(rows: Sequence[Row], configs: Sequence[Config]) -> list[Fact]:
    """Make facts from the rows (node, parent, start, config, isolation_key)."""
    return [
        NodeAdded(node, parent, start, configs[config], isolation_key)
        for node, parent, start, config, isolation_key in rows
    ]


def requests_from(rows: Sequence[Row], configs: Sequence[Config]) -> list[Fact]:
    """Make facts from the rows (study, trial, config, step)."""
    return [RequestMade(study, trial, configs[config], step) for study, trial, config, step in rows]


def bodies_from(rows: Sequence[Row]) -> list[Fact]:
    """Make facts from the rows (body,)."""
    return [decode_fact(body) for (body,) in rows]


def spans_from(rows: Sequence[Row]) -> list[SpanRecorded]:
    """Make facts from the rows of spans."""
    return [SpanRecorded(*row) for row in rows]


def results_from(rows: Sequence[Row]) -> list[Fact]:
    """Make facts from the rows (order, node, step, metrics, error, kind, time)."""
    parsed = _parsed([row[3] or "null" for row in rows])
    return [
        MetricsRecorded(order, Position(node, step), metrics, at)
        if metrics is not None
        else FailureCleared(order, Position(node, step), at)
        if kind == _CLEARED
        else FailureRecorded(order, Position(node, step), error, kind == _SUSPENDED, kind == _EVALUATION, at)
        for (order, node, step, _, error, kind, at), metrics in zip(rows, parsed, strict=True)
    ]


def _logged_row(node: int, steps: Sequence[int], columns: Columns) -> Row:
    is_gapless = steps[-1] - steps[0] == len(steps) - 1
    return node, steps[0], steps[-1], None if is_gapless else _write_json(steps), _write_json(dict(columns))


def logged_from(rows: Sequence[Row]) -> list[NumbersRecorded]:
    """Make facts from the rows (node, first_step, last_step, steps, numbers, time)."""
    given, parsed = (_parsed([row[place] or "null" for row in rows]) for place in (3, 4))
    return [
        NumbersRecorded(
            node,
            tuple(range(first, last + 1)) if steps is None else tuple(steps),
            {name: tuple(column) for name, column in columns.items()},
            at,
        )
        for (node, first, last, _, _, at), steps, columns in zip(rows, given, parsed, strict=True)
    ]


def _proof_row(fact: StateRecorded | ProofRecorded) -> Row:
    if isinstance(fact, StateRecorded):
        body = [*fact.source, base64.b64encode(fact.fingerprint).decode()]
        return NOTE, *fact.position, _write_json(body)
    path = None if fact.path is None else storable(fact.path)
    volatile = [storable(name) for name in fact.volatile]
    told = [
        fact.outcome,
        storable(fact.text),
        path,
        fact.step,
        fact.spread,
        volatile,
        storable(fact.platform),
    ]
    kind = fact.kind if fact.width == 1 else f"{fact.kind} {fact.width}"
    return kind, *fact.position, _write_json(told)


def forgotten(row: Row) -> tuple[str, int]:
    """Return the body and the check value of a row of a state, of all columns, without the fingerprint."""
    *values, body, _ = row
    (parsed,) = _parsed([body])
    without = _write_json([*parsed[:2], ""])
    return without, check_value((*values, without))


def is_compared(fact: Fact) -> bool:
    """Whether a fact is a state whose fingerprint was let go."""
    return isinstance(fact, StateRecorded) and not fact.fingerprint


def proofs_from(rows: Sequence[Row]) -> list[Fact]:
    """Make facts from the rows (kind, node, step, body)."""
    facts: list[Fact] = []
    for (kind, node, step, _), body in zip(rows, _parsed([row[3] for row in rows]), strict=True):
        if kind == NOTE:
            source, content = Position(*body[:2]), base64.b64decode(body[2])
            facts.append(StateRecorded(Position(node, step), source, content))
        else:
            kind, _, width = kind.partition(" ")
            outcome, text, path, after, spread, volatile, platform = body
            told = (outcome, text, path, after, spread, tuple(volatile), int(width or 1), platform)
            facts.append(ProofRecorded(kind, Position(node, step), *told))
    return facts


def _parsed(texts: Sequence[str]) -> list[Any]:
    """Parse many small JSON texts as one: the parser is called once and shares names between them."""
    try:
        parsed: list[Any] = json.loads(f"[{','.join(texts)}]")
    except ValueError as error:
        raise StoreError(f"the database holds text that is not what was written: {DAMAGED}") from error
    return parsed
