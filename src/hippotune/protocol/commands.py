"""What the engine wants done. The shell carries commands out in order and feeds events back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from hippotune.plan.facts import Checkpoint, Fact, Position
from hippotune.protocol.proof import Verdict
from hippotune.sequences.config import Config


@dataclass(frozen=True)
class Segment:
    """The part of a lease's path on one node: the step counts in (start, end] belong to `node`."""

    node: int
    start: int
    end: int


@dataclass(frozen=True)
class RunLease:
    """Train one path on one worker, or on several together.

    The whole path follows from `config`, because every node above agrees with it. The worker starts from
    what it holds (`warm`), from `source`, or from scratch (neither); trains from `start` to `end`; saves
    and evaluates at the steps named. `required` are the metrics that tuners read; with `probe` the
    worker checks before the first step that evaluate() returns them.

    At the steps in `fingerprints` the worker says what its state is, before it evaluates there, and once more
    after that. A `proof` repeats training that was done before, or is what others repeat: it logs only where
    it saves, because training goes on from its checkpoints alone. One that is `fresh` runs in an interpreter
    that has trained nothing yet; one that is `nudged` starts from weights changed in their last bits.

    `width` is how many slots' worth of work the lease gets: above 1, `peers` are the workers that train it
    together with `worker`, which leads; below 1, others train beside it on the same slot. The worker may be
    silent for `patience` times as long as usual before it counts as hung. What is trained for longer than
    `checkpoint_every` seconds is saved on the way, too.

    `study` and `trial` are shown to people: they name one request for the lease's end; there may be others.
    """

    lease: int
    worker: int
    config: Config
    start: int
    end: int
    segments: tuple[Segment, ...]
    saves: frozenset[int]
    evaluations: frozenset[int]
    source: Checkpoint | None = None
    warm: bool = False
    required: frozenset[str] = frozenset()
    probe: bool = False
    peers: tuple[int, ...] = ()
    width: Fraction = Fraction(1)
    study: str = ""
    trial: int | None = None
    fingerprints: frozenset[int] = frozenset()
    proof: bool = False
    fresh: bool = False
    nudged: bool = False
    patience: int = 1
    checkpoint_every: float | None = None

    @property
    def workers(self) -> tuple[int, ...]:
        """All workers that train it, its leader first."""
        return (self.worker, *self.peers)

    @property
    def logs(self) -> bool:
        """Whether what its training logs is to be recorded."""
        return not self.proof or bool(self.saves)

    def node_at(self, step: int) -> int:
        """Return the node that the state after `step` steps belongs to."""
        for segment in self.segments:
            if segment.start < step <= segment.end:
                return segment.node
        return self.segments[0].node if step <= self.start else self.segments[-1].node


@dataclass(frozen=True)
class UpdateLease:
    """Replace what a running lease still has to do. Steps already passed are answered `StepsMissed`.

    A lease that is at or past `end` stops at the end of its present step and saves there.
    """

    lease: int
    worker: int
    end: int
    saves: frozenset[int]
    evaluations: frozenset[int]
    fingerprints: frozenset[int] = frozenset()
    checkpoint_every: float | None = None


@dataclass(frozen=True)
class ReleaseWorker:
    """A worker that was leaving has nothing to do any more: it may go when its saves are over."""

    worker: int


@dataclass(frozen=True)
class Answer:
    """Answer a request. Carried out after the facts before it are durable.

    `order` is the place of this result in the plan's history; results are delivered in that order. With an
    `error` the request cannot be met; where it is `suspended`, it may be met after a user retries it.
    """

    request: int
    step: int
    order: int
    metrics: Mapping[str, float] | None
    error: str | None
    final: bool
    suspended: bool = False


@dataclass(frozen=True)
class Record:
    """Make facts durable."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class DropCheckpoint:
    """Delete a checkpoint's files; the plan no longer counts on them."""

    position: Position
    checkpoint: Checkpoint


DISK_FULL = "the disk is full; make room and run the same script again"


@dataclass(frozen=True)
class Abort:
    """No trial can work, or the disk is full: end studies with this error.

    Without `studies`, it is all of them, and the plan. `disk_full` says that it is full for checkpoints.
    """

    error: str
    disk_full: bool = False
    refutation: Verdict | None = None
    studies: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Wake:
    """Say `Woken` when the clock has come to a time."""

    at: float


@dataclass(frozen=True)
class Note:
    """Show a text to the user, unless it was shown before."""

    text: str


ExecutorCommand = RunLease | UpdateLease
Command = RunLease | UpdateLease | ReleaseWorker | Answer | Record | DropCheckpoint | Abort | Wake | Note
