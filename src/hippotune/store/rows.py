"""Facts as rows, and back.

Configs are numbered in the order in which they are first stored, and so are the sequences in them: a study of
100,000 trials is made of few sequences, and each is written, parsed and held in memory once.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from hippotune.errors import StoreError
from hippotune.plan.facts import (
    Checkpoint,
    CheckpointDropped,
    CheckpointKept,
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
)
from hippotune.plan.numbers import Columns
from hippotune.sequences.base import Sequence as HyperSequence
from hippotune.sequences.config import Config
from hippotune.sequences.constant import Constant
from hippotune.sequences.encoding import from_json
from hippotune.store.schema import CONFIGS, LOGGED, NODES, PROOFS, REQUESTS, RESULTS, SEQUENCES, SPANS

Row = tuple[Any, ...]
NUMBERED = (REQUESTS, SPANS, LOGGED, PROOFS)
"""The tables whose rows are numbered as they come."""
DAMAGED = (
    "something else has changed it, or the disk has. See all that is damaged with hippo doctor; put a backup "
    "back, or remove what is damaged with hippo doctor --repair: it is then trained or measured again"
)
_span_values = attrgetter(
    "worker", "lease", "node", "kind", "first", "last", "began", "ended", "width", "seconds"
)
# What results are that are neither metrics nor what keeps training from going on for good.
_SUSPENDED, _EVALUATION, _CLEARED = "suspended", "evaluation", "cleared"
NOTE = "note"  # the kind of a state that is still to be compared
_write_json = json.JSONEncoder(separators=(",", ":"), default=float).encode


class Numbers:
    """The numbers that a plan's stored sequences and configs have; `ordinals` are the next ones of rows."""

    def __init__(self, sequences: Sequence[HyperSequence] = (), configs: Sequence[Config] = ()) -> None:
        self.sequences: dict[HyperSequence, int] = {sequence: n for n, sequence in enumerate(sequences)}
        self.configs: dict[Config, int] = {config: n for n, config in enumerate(configs)}
        self.ordinals: Counter[sa.TableClause] = Counter({SEQUENCES: len(sequences), CONFIGS: len(configs)})

    def take_in(self, batch: Batch) -> None:
        """Count what a batch has numbered, now that it is stored."""
        self.sequences |= batch.sequences
        self.configs |= batch.configs
        for table in (SEQUENCES, CONFIGS, *NUMBERED):
            self.ordinals[table] += len(batch.rows[table])


class Batch:
    """The rows that a list of facts amounts to, with new numbers for what is new in them."""

    def __init__(self, plan: int, numbers: Numbers, facts: Sequence[Fact]) -> None:
        self._plan = plan
        self._numbers = numbers
        self.sequences: dict[HyperSequence, int] = {}
        self.configs: dict[Config, int] = {}
        self.checkpoints: dict[Position, Checkpoint | None] = {}
        self.compared: list[Position] = []
        self.rows: dict[sa.TableClause, list[Row]] = {
            table: [] for table in (SEQUENCES, CONFIGS, NODES, RESULTS, REQUESTS, SPANS, LOGGED, PROOFS)
        }
        self._add(facts)

    def _add(self, facts: Sequence[Fact]) -> None:
        plan, nodes, results = self._plan, self.rows[NODES], self.rows[RESULTS]
        for fact in facts:
            match fact:
                case MetricsRecorded(order, position, metrics):
                    written = _write_json(metrics if isinstance(metrics, dict) else dict(metrics))
                    results.append((plan, order, *position, written, None, None))
                case NodeAdded(node, parent, start, config, isolation_key):
                    nodes.append((plan, node, parent, start, self._number(config), storable(isolation_key)))
                case CheckpointKept(position, checkpoint):
                    self.checkpoints[position] = checkpoint
                case CheckpointDropped(position):
                    self.checkpoints[position] = None
                case RequestMade(study, trial, config, step):
                    self._append(REQUESTS, storable(study), trial, self._number(config), step)
                case SpanRecorded():
                    *numbered, began, ended, width, seconds = _span_values(fact)
                    self._append(SPANS, *numbered, *map(_real, (began, ended, width, seconds)))
                case NumbersRecorded(node, steps, columns):
                    self._append(LOGGED, *_logged_row(node, steps, columns))
                case StateRecorded() | ProofRecorded():
                    if isinstance(fact, ProofRecorded) and fact.kind == "audit":
                        self.compared.append(fact.position)
                    self._append(PROOFS, *_proof_row(fact))
                case FailureRecorded(order, position, error, suspended, evaluation):
                    kind = _SUSPENDED if suspended else _EVALUATION if evaluation else None
                    results.append((plan, order, *position, None, storable(error), kind))
                case FailureCleared(order, position):
                    results.append((plan, order, *position, None, None, _CLEARED))

    def _append(self, table: sa.TableClause, *row: Any) -> int:
        """Add a row to a table whose rows are numbered; return its number."""
        rows = self.rows[table]
        number = self._numbers.ordinals[table] + len(rows)
        rows.append((self._plan, number, *row))
        return number

    def _number(self, config: Config) -> int:
        number = self._numbers.configs.get(config, self.configs.get(config))
        if number is None:
            body = {name: self._number_sequence(sequence) for name, sequence in config.items()}
            number = self.configs[config] = self._append(CONFIGS, _write_json(body))
        return number

    def _number_sequence(self, sequence: HyperSequence) -> int:
        number = self._numbers.sequences.get(sequence, self.sequences.get(sequence))
        if number is None:
            plain = sequence.arguments[0] if isinstance(sequence, Constant) else sequence.to_json()
            number = self.sequences[sequence] = self._append(SEQUENCES, _write_json(plain))
        return number


def _real(number: float | None) -> float | None:
    """Return a number as databases give it back: SQLite has no -0.0."""
    return None if number is None else float(number) + 0.0


def check_value(row: Row) -> int:
    """Return a number that is another one if anything in a row is. Columns that are added later do not count.

    It finds mistakes and damaged disks. It does not stop a person from changing a row: they can make the
    number too.
    """
    last = len(row)
    while last and row[last - 1] is None:
        last -= 1
    return zlib.crc32(ascii(row[:last]).encode())


def is_damaged(row: Row) -> bool:
    """Whether a row, with its check value at the end, is not what was written."""
    return row[-1] is not None and check_value(row[:-1]) != row[-1]


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


def results_from(rows: Sequence[Row]) -> list[Fact]:
    """Make facts from the rows (order, node, step, metrics, error, kind)."""
    parsed = _parsed([row[3] or "null" for row in rows])
    return [
        MetricsRecorded(order, Position(node, step), metrics)
        if metrics is not None
        else FailureCleared(order, Position(node, step))
        if kind == _CLEARED
        else FailureRecorded(order, Position(node, step), error, kind == _SUSPENDED, kind == _EVALUATION)
        for (order, node, step, _, error, kind), metrics in zip(rows, parsed, strict=True)
    ]


def _logged_row(node: int, steps: Sequence[int], columns: Columns) -> Row:
    is_gapless = steps[-1] - steps[0] == len(steps) - 1
    return node, steps[0], steps[-1], None if is_gapless else _write_json(steps), _write_json(dict(columns))


def logged_from(rows: Sequence[Row]) -> list[NumbersRecorded]:
    """Make facts from the rows (node, first_step, last_step, steps, numbers)."""
    given, parsed = (_parsed([row[place] or "null" for row in rows]) for place in (3, 4))
    return [
        NumbersRecorded(
            node,
            tuple(range(first, last + 1)) if steps is None else tuple(steps),
            {name: tuple(column) for name, column in columns.items()},
        )
        for (node, first, last, _, _), steps, columns in zip(rows, given, parsed, strict=True)
    ]


def _proof_row(fact: StateRecorded | ProofRecorded) -> Row:
    if isinstance(fact, StateRecorded):
        body = [*fact.source, base64.b64encode(fact.fingerprint).decode()]
        return NOTE, *fact.position, _write_json(body)
    path = None if fact.path is None else storable(fact.path)
    told = [fact.outcome, storable(fact.text), path, fact.step, fact.spread, *map(storable, fact.volatile)]
    kind = fact.kind if fact.width == 1 else f"{fact.kind} {fact.width}"
    return kind, *fact.position, _write_json(told)


def proofs_from(rows: Sequence[Row]) -> list[Fact]:
    """Make facts from the rows (kind, node, step, body)."""
    facts: list[Fact] = []
    for (kind, node, step, _), body in zip(rows, _parsed([row[3] for row in rows]), strict=True):
        if kind == NOTE:
            source, content = Position(*body[:2]), base64.b64decode(body[2])
            facts.append(StateRecorded(Position(node, step), source, content))
        else:
            kind, _, width = kind.partition(" ")
            outcome, text, path, after, spread, *volatile = body
            told = (outcome, text, path, after, spread, tuple(volatile), int(width or 1))
            facts.append(ProofRecorded(kind, Position(node, step), *told))
    return facts


def _parsed(texts: Sequence[str]) -> list[Any]:
    """Parse many small JSON texts as one: the parser is called once and shares names between them."""
    try:
        parsed: list[Any] = json.loads(f"[{','.join(texts)}]")
    except ValueError as error:
        raise StoreError(f"the database holds text that is not what was written: {DAMAGED}") from error
    return parsed
