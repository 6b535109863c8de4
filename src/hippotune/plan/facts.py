"""What is stored: facts, in the order in which they came to be true.

A plan is rebuilt by replaying its facts. Nothing is ever edited; what is no longer so is said by a
further fact. Everything that can be derived (stage trees, merge rates, reports) is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hippotune.plan.numbers import Columns
from hippotune.sequences.config import Config


class Position(NamedTuple):
    """The state after `step` steps, trained along `node`; `node` began at an earlier step."""

    node: int
    step: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A trainer's whole state on disk: a name below the checkpoint folder, its size and its checksum."""

    name: str
    bytes: int
    checksum: str


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A config parted from `parent` at `start` (from the root where `parent` is None)."""

    node: int
    parent: int | None
    start: int
    config: Config
    isolation_key: str = ""


@dataclass(frozen=True, slots=True)
class MetricsRecorded:
    """The metrics measured at a position. `order` counts results of the plan as they came."""

    order: int
    position: Position
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NumbersRecorded:
    """What training along a node logged at some of its steps: of each name, a number for each of `steps`.

    Steps come in order; None stands where a step has no number. A step that is trained again is recorded
    again: what was recorded last counts.
    """

    node: int
    steps: tuple[int, ...]
    numbers: Columns


@dataclass(frozen=True, slots=True)
class FailureRecorded:
    """Training along a node cannot reach `position`, nor anything below it."""

    order: int
    position: Position
    error: str


@dataclass(frozen=True, slots=True)
class CheckpointKept:
    """A durable checkpoint exists at a position."""

    position: Position
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class CheckpointDropped:
    """The checkpoint at a position is no longer there (evicted, missing or damaged)."""

    position: Position


@dataclass(frozen=True, slots=True)
class RequestMade:
    """A tuner of a study asked for a trial up to a step."""

    study: str
    trial: int
    config: Config
    step: int


@dataclass(frozen=True, slots=True)
class SpanRecorded:
    """Worker time: what a worker did between two moments (seconds since the epoch, or virtual).

    `width` is how many slots' time it counts for: that of all who train together counts with their leader,
    and the others' spans, of the kind "help", for nothing. `seconds` is what the steps alone took, without
    starting, evaluating and waiting; None where that was not measured.
    """

    worker: int
    lease: int
    node: int
    kind: str  # "train" or "help"
    first: int
    last: int
    began: float
    ended: float
    width: float = 1.0
    seconds: float | None = None


class MeasuredSteps(NamedTuple):
    """What `steps` steps along a node took at a width: what all its spans come to."""

    node: int
    width: float
    steps: int
    seconds: float


Fact = (
    NodeAdded
    | MetricsRecorded
    | NumbersRecorded
    | FailureRecorded
    | CheckpointKept
    | CheckpointDropped
    | RequestMade
    | SpanRecorded
)
