"""What is stored: facts, in the order in which they came to be true.

A plan is rebuilt by replaying its facts. Nothing is ever edited; what is no longer so is said by a
further fact. Everything that can be derived (stage trees, merge rates, reports) is not here.

A `time` is in seconds since the epoch, or virtual, by the clock of the workers. Where it says only when
something became known, it is no part of what is said: facts that differ in it alone are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hippotune.plan.numbers import Columns
from hippotune.sequences.config import Config


class Position(NamedTuple):
    """The state after `step` steps, trained along `node`; `node` began at an earlier step."""

    node: int
    step: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A trainer's whole state on disk: a name below the checkpoint folder, its size and its checksum.

    `platform` is where it was trained: processor, devices and libraries, as far as results depend on them.
    One that is `interim` was saved on the way through a stage, to go on from after a loss: it goes when the
    next one is there, or the end of its stage.
    """

    name: str
    bytes: int
    checksum: str
    platform: str = ""
    interim: bool = False


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
    time: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NumbersRecorded:
    """What training along a node logged at some of its steps: of each name, a number for each of `steps`.

    Steps come in order; None stands where a step has no number. A step that is trained again is recorded
    again: what was recorded last counts.
    """

    node: int
    steps: tuple[int, ...]
    numbers: Columns
    time: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FailureRecorded:
    """Training along a node cannot reach `position`, nor anything below it.

    A `suspended` one was lost with its workers, which is not the trials' fault: they wait until a user
    retries it. Where an `evaluation` failed, training goes on, and only the metrics there are missing.
    """

    order: int
    position: Position
    error: str
    suspended: bool = False
    evaluation: bool = False
    time: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FailureCleared:
    """What failed at `position` is to be tried again."""

    order: int
    position: Position
    time: float | None = field(default=None, compare=False)


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
    kind: str  # "train", "help" or "proof"
    first: int
    last: int
    began: float
    ended: float
    width: float = 1.0
    seconds: float | None = None

    @property
    def steps_seconds(self) -> float | None:
        """What trained steps took: the one step time, of scheduling and of predictions; else None."""
        return self.seconds if self.kind == "train" and self.last > self.first else None


@dataclass(frozen=True, slots=True)
class StateRecorded:
    """The state at a position, as trained straight through a branch at `source`, one step
    before: an audit is to repeat that step.
    """

    position: Position
    source: Position
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class ProofRecorded:
    """What a proof has come to: whether training is exact, "noisy" up to `spread`, or "differs".

    `kind` is "rehearsal", "audit" or "width", and `position` the furthest state that was compared. `text` is
    what to tell a person, with the `path` of what differs and the step after which it did. What is `volatile`
    differs each time and means nothing, or is not saved and was told. A proof of width is about one `width`.
    What was compared was trained on one `platform`; empty where that was not recorded.
    """

    kind: str
    position: Position
    outcome: str
    text: str = ""
    path: str | None = None
    step: int | None = None
    spread: float = 0.0
    volatile: tuple[str, ...] = ()
    width: int = 1
    platform: str = ""


@dataclass(frozen=True, slots=True)
class StudyBegan:
    """A tuner began to tune a study, the study's `tuning`-th time (from 1), for the best `metric`.

    `definition` says how, as far as that is plain data, as JSON has it: {"tuner": "GridSearch", …}.
    """

    study: str
    tuning: int
    time: float
    metric: str
    mode: str
    definition: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StudyEnded:
    """A tuning is over: `outcome` is "finished", "failed" or "interrupted", or names what ended it, such as
    "deadline" or "stopped". `text` is what to tell a person. A tuning without an end runs, or was killed.
    """

    study: str
    tuning: int
    time: float
    outcome: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class StudyStopped:
    """A user has stopped a study: nothing more is trained for it."""

    study: str
    time: float
    by: str = ""


@dataclass(frozen=True, slots=True)
class TrialStopped:
    """A user has stopped a trial of a study: it is not trained any further."""

    study: str
    trial: int
    time: float
    by: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointPinned:
    """A user has pinned a checkpoint, which then stays even above the budget; or has unpinned it."""

    position: Position
    time: float
    pinned: bool = True
    by: str = ""


def refutation(proofs: Iterable[ProofRecorded]) -> ProofRecorded | None:
    """Return the proof that has shown that training is not exact, if one has."""
    return next((each for each in proofs if each.kind != "width" and each.outcome == "differs"), None)


def width_refutation(proofs: Iterable[ProofRecorded]) -> ProofRecorded | None:
    """Return the proof that has shown that several workers learn otherwise than one, if one has."""
    return next((each for each in proofs if each.kind == "width" and each.outcome == "differs"), None)


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
    | FailureCleared
    | CheckpointKept
    | CheckpointDropped
    | RequestMade
    | SpanRecorded
    | StateRecorded
    | ProofRecorded
    | StudyBegan
    | StudyEnded
    | StudyStopped
    | TrialStopped
    | CheckpointPinned
)
Action = StudyBegan | StudyEnded | StudyStopped | TrialStopped | CheckpointPinned | FailureCleared
"""What studies and people did: facts that do not come of training."""
