"""A lease as the engine sees it: a path being trained, what it still owes, and its history."""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from hippotune.engine.held_numbers import HeldNumbers
from hippotune.plan.facts import Position, SpanRecorded
from hippotune.plan.node import Node
from hippotune.protocol.commands import Segment, UpdateLease
from hippotune.scheduling.profile import Profile
from hippotune.stages.tasks import Path

# How many lines of a lease's history are kept.
_LINES = 30


def part(path: Path, start: int, end: int) -> Path:
    """Return the part of a path between two steps."""
    return tuple(
        (node, max(first, start), min(last, end))
        for node, first, last in path
        if max(first, start) < min(last, end)
    )


@dataclass(slots=True, eq=False)
class Lease:
    """A path on one or more workers. Its promises belong to `Promises`, which alone changes them.

    Attributes
    ----------
    study
        The study whose turn it was; the lease may serve others too.
    worker, peers
        The worker that leads, and those that train it together with that one; all are on one `platform`.
    end, saves, evaluations, fingerprints
        The steps at which it stops, saves, evaluates and reports its state; `last_sent` is what the worker
        was told of them. Saves at the steps `settled` have ended, successfully or not.
    at, updated_at
        The step of its last event, and when that came.
    stopping, claim
        Whether it takes on nothing more; the width that it is to go on at, if that is why.
    alone
        Whether it has one stage, and its slot to itself.
    taken, logged
        Steps along each node, with their seconds; numbers that are not recorded yet.
    proof, startup
        Whether it repeats what was trained before; the seconds that an interpreter of its own took to start.
    resumes_at, interims, checkpoint_every
        The step from which training would go on if it were lost now; the steps of its interim checkpoints,
        and the seconds between these.
    payers, paid_until
        The studies that wait for its results, and the time up to which they are charged for it.
    cut, cut_at
        Whether it ends to make room for others; the step where it did, if nothing else was to be saved there.
    """

    id: int
    study: str
    worker: int
    path: Path
    end: int
    began: float
    at: int
    width: Fraction = Fraction(1)
    peers: tuple[int, ...] = ()
    updated_at: float = 0.0
    loads: bool = False
    stopping: bool = False
    alone: bool = False
    claim: Fraction = Fraction(0)
    saves: Set[int] = frozenset()
    evaluations: Set[int] = frozenset()
    settled: set[int] = field(default_factory=set)
    fingerprints: set[int] = field(default_factory=set)
    taken: dict[Node, tuple[int, float]] = field(default_factory=dict)
    state: Literal["running", "saving", "over"] = "running"
    last_sent: UpdateLease | None = None
    checkpoint_every: float | None = None
    resumes_at: int = -1
    interims: set[int] = field(default_factory=set)
    payers: Set[str] = frozenset()
    paid_until: float = 0.0
    cut: Literal["", "at a boundary", "at a step"] = ""
    cut_at: int | None = None
    proof: bool = False
    startup: float = 0.0
    platform: str = ""
    story: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES))
    logged: HeldNumbers = field(init=False)

    def __post_init__(self) -> None:
        self.logged = HeldNumbers(self.began)
        self.resumes_at = self.start
        self.payers, self.paid_until = {self.study}, self.began

    @property
    def workers(self) -> tuple[int, ...]:
        """All workers that train it, its leader first."""
        return (self.worker, *self.peers)

    @property
    def origin(self) -> tuple[Node, int]:
        """The node and the step that the lease starts from."""
        return self.path[0][:2]

    @property
    def start(self) -> int:
        """The step count that the lease starts from."""
        return self.path[0][1]

    @property
    def goal(self) -> int:
        """The step that it is on its way to, even if it stops on the way to go on at another width."""
        return self.path[-1][2] if self.stopping else self.end

    @property
    def update(self) -> UpdateLease:
        """What its worker has to do from now on."""
        return UpdateLease(
            self.id,
            self.worker,
            self.end,
            frozenset(self.saves),
            frozenset(self.evaluations),
            frozenset(self.fingerprints),
            self.checkpoint_every,
        )

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The path as plain values."""
        return tuple(Segment(node.id, start, end) for node, start, end in self.path)

    @property
    def left(self) -> Path:
        """What is still to be trained of the path, as far as is known."""
        return part(self.path, self.at, self.end)

    def cost(self, first: int, last: int) -> float:
        """Return how long the way from one step to another is on one slot, in usual steps."""
        return sum((end - start) * node.pace for node, start, end in part(self.path, first, last))

    def time_left(self, profile: Profile, now: float, end: int) -> float:
        """Return how long it still takes to come to a step, at its width, in usual steps."""
        usual = profile.usual
        gone = (now - self.updated_at) / usual if usual else 0.0
        return max(self.cost(self.at, end) / profile.speed(self.width) - gone, 0.0)

    def node_at(self, step: int) -> Node:
        """Return the node that the state after `step` steps belongs to."""
        for node, start, end in self.path:
            if start < step <= end:
                return node
        return self.path[0][0].holder(step) if step <= self.start else self.path[-1][0]

    def position(self, step: int) -> Position:
        """Return the position after `step` steps on this path."""
        return Position(self.node_at(step).id, step)

    def covers(self, node: Node, step: int) -> bool:
        """Whether the path passes `step` of `node`, ahead of where the worker is known to be."""
        return self.at < step and any(
            along is node and start < step <= end for along, start, end in self.path
        )

    def spans(self, now: float) -> list[SpanRecorded]:
        """Return the worker's time on the lease, shared out over the nodes by the steps trained on each."""
        spans: list[SpanRecorded] = []
        elapsed, trained = now - self.began, self.at - self.start
        began, kind = self.began, "proof" if self.proof else "train"
        for node, start, end in self.path:
            last = min(end, self.at)
            if last <= start and trained:
                break
            ended = began + elapsed * (last - start) / trained if trained else now
            steps = (start, last, began, ended)
            width, seconds = float(self.width), self._seconds(node, last - start)
            spans.append(SpanRecorded(self.worker, self.id, node.id, kind, *steps, width, seconds))
            # The leader's span counts for all.
            spans += [SpanRecorded(peer, self.id, node.id, "help", *steps, 0.0) for peer in self.peers]
            began = ended
            if not trained:
                break
        return spans

    def progressed(self, node: Node, steps: int, seconds: float) -> None:
        """Take in what steps along a node took."""
        before, spent = self.taken.get(node, (0, 0.0))
        self.taken[node] = (before + steps, spent + seconds)

    def _seconds(self, node: Node, steps: int) -> float | None:
        trained, seconds = self.taken.get(node, (0, 0.0))
        return seconds * steps / trained if trained and steps else None

    def record(self, now: float, text: str) -> None:
        """Add a line to the history."""
        self.story.append(f"{now:.3f} {text}")

    def history(self) -> str:
        """Return what the lease is and what happened to it, for an error message."""
        path = " → ".join(f"node {node.id} [{start}, {end})" for node, start, end in self.path)
        lines = "\n".join(f"  {line}" for line in self.story)
        return (
            f"lease {self.id} on worker {self.worker} is {self.state}, at step {self.at}: {path}\n"
            f"  owes metrics at {sorted(self.evaluations)}, saves at {sorted(self.saves)}\n{lines}"
        )
