"""What the engine wants done. The shell carries commands out in order and feeds events back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from hippotune.plan.facts import Checkpoint, Fact, Position
from hippotune.sequences.config import Config


@dataclass(frozen=True, slots=True)
class Segment:
    """A lease's way along one node: the step counts in (start, end] belong to `node`."""

    node: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RunLease:
    """Train one path on one worker, or on several together.

    The whole path follows from `config`, because every node above agrees with it. The worker starts from
    what it holds (`warm`), from `source`, or from scratch (neither); trains from `start` to `end`; saves
    and evaluates at the steps named. `required` are metrics that evaluate() must return; with `probe`
    the worker checks that before the first step.

    `width` is how many slots' worth of work the lease gets: above 1, `peers` are the workers that train it
    together with `worker`, which leads; below 1, others train beside it on the same slot.
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

    def node_at(self, step: int) -> int:
        """Return the node that the state after `step` steps belongs to."""
        for segment in self.segments:
            if segment.start < step <= segment.end:
                return segment.node
        return self.segments[0].node if step <= self.start else self.segments[-1].node


@dataclass(frozen=True, slots=True)
class UpdateLease:
    """Replace what a running lease still has to do. Steps already passed are answered `StepsMissed`.

    A lease that is at or past `end` stops at the end of its present step and saves there.
    """

    lease: int
    worker: int
    end: int
    saves: frozenset[int]
    evaluations: frozenset[int]


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell whoever made a request what came of it. Carried out after the facts before it are durable.

    `order` is the place of this result in the plan's history; results are delivered in that order.
    """

    request: int
    step: int
    order: int
    metrics: Mapping[str, float] | None
    error: str | None
    final: bool


@dataclass(frozen=True, slots=True)
class Record:
    """Make facts durable."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class DropCheckpoint:
    """Delete a checkpoint's files; the plan no longer counts on them."""

    position: Position
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Abort:
    """No trial can work, or nothing can be saved because the disk is full: end the study with this error."""

    error: str
    disk_full: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Let a person read a text, unless it was shown before."""

    text: str


ExecutorCommand = RunLease | UpdateLease
Command = RunLease | UpdateLease | Answer | Record | DropCheckpoint | Abort | Note
