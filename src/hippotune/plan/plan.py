"""The search plan: a tree of nodes, and what was trained, measured and kept along them.

What always holds:

* Two configs share a node up to step t exactly if all their values agree at the steps 0…t.
* A node's branches leave it at steps after its own start, and differ from it, and from each other where
  they leave at the same step, in their values at that step.
* It only grows; a plan that is given the facts of another one, in order, is equal to it.

The cost of placing a config depends on the pieces compared on its way down, not on the size of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hippotune.errors import StoreError
from hippotune.gc_pause import gc_paused
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
    Position,
    ProofRecorded,
    SpanRecorded,
    StateRecorded,
    StudyBegan,
    StudyEnded,
)
from hippotune.plan.node import Failure, Node
from hippotune.sequences.config import Config


class Plan:
    """A plan in memory. Every change returns the fact that it amounts to."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.roots: dict[tuple[object, ...], Node] = {}
        self.order = 0
        self.bytes = 0
        self.proofs: list[ProofRecorded] = []
        self.rehearsed: dict[str, int] = {}  # how many steps, by platform
        self.fingerprints: dict[Position, StateRecorded] = {}
        self.interim: dict[Position, None] = {}
        # The last tuning of each study, and how it ended: None where it runs, or was killed.
        self.tunings: dict[str, tuple[StudyBegan, StudyEnded | None]] = {}
        self.pinned: set[Position] = set()

    @classmethod
    def replay(cls, facts: Iterable[Fact]) -> Plan:
        """Rebuild a plan from its facts."""
        plan = cls()
        with gc_paused():
            for fact in facts:
                plan.apply(fact)
        return plan

    def __getitem__(self, node: int) -> Node:
        return self.nodes[node]

    # Placing configs.

    def place(self, config: Config, step: int, isolation_key: str = "") -> tuple[Node, list[Fact]]:
        """Return the node that `config` is on when it has trained `step` steps, adding what is missing."""
        node, parts = self.follow(config, step, isolation_key)
        if node is not None and parts is None:
            return node, []
        node = self._add(node, parts or 0, config, isolation_key)
        return node, [
            NodeAdded(node.id, node.parent.id if node.parent else None, node.start, config, isolation_key)
        ]

    def find(self, config: Config, step: int, isolation_key: str = "") -> Node:
        """Return the node that `config` is on after `step` steps; `LookupError` where it was never placed."""
        node, parts = self.follow(config, step, isolation_key)
        if node is None or parts is not None:
            raise LookupError(f"{config!r} was never asked for as far as step {step}")
        return node

    def follow(self, config: Config, step: int, isolation_key: str) -> tuple[Node | None, int | None]:
        """Return the last node that `config` is on within `step` steps, and where it leaves it, if so."""
        node = self.roots.get((isolation_key, *config.key(0)))
        while node is not None and (parts := node.config.first_difference(config, step)) is not None:
            child = node.children.get((parts, *config.key(parts)))
            if child is None:
                return node, parts
            node = child
        return node, None

    def _add(self, parent: Node | None, start: int, config: Config, isolation_key: str) -> Node:
        key = config.key(start)
        node = Node(len(self.nodes), parent, start, config, isolation_key)
        self.nodes.append(node)
        if parent is None:
            self.roots[isolation_key, *key] = node
        else:
            parent.add_child(node, (start, *key))
        return node

    # What becomes known.

    def measure(
        self, position: Position, metrics: Mapping[str, float], time: float | None = None
    ) -> MetricsRecorded:
        """Note the metrics at a position."""
        fact = MetricsRecorded(self.order + 1, position, metrics, time)
        self.apply(fact)
        return fact

    def fail(
        self,
        position: Position,
        error: str,
        suspended: bool = False,
        evaluation: bool = False,
        time: float | None = None,
    ) -> FailureRecorded:
        """Note that training cannot reach a position, or not before a user retries it.

        Where it is an `evaluation` that failed, training can go on, and only metrics cannot be had.
        """
        fact = FailureRecorded(self.order + 1, position, error, suspended, evaluation, time)
        self.apply(fact)
        return fact

    def clear(self, position: Position, time: float | None = None) -> FailureCleared:
        """Note that what failed at a position is to be tried again."""
        fact = FailureCleared(self.order + 1, position, time)
        self.apply(fact)
        return fact

    def next_tuning(self, study: str) -> int:
        """Return the number of a tuning of a study that is about to begin: from 1 on."""
        return 1 + self.tunings[study][0].tuning if study in self.tunings else 1

    def has_measured(self, metric: str) -> bool:
        """Whether any trial has a metric, at any step."""
        return any(metric in metrics for node in self.nodes for _, metrics in node.metrics.values())

    def keep(self, position: Position, checkpoint: Checkpoint) -> CheckpointKept:
        """Note a durable checkpoint."""
        fact = CheckpointKept(position, checkpoint)
        self.apply(fact)
        return fact

    def drop(self, position: Position) -> CheckpointDropped:
        """Note that a checkpoint is gone."""
        fact = CheckpointDropped(position)
        self.apply(fact)
        return fact

    def apply(self, fact: Fact) -> None:
        """Take in a fact of the past. Facts that say nothing of the tree are passed over."""
        match fact:
            case MetricsRecorded(order, position, metrics):  # first, because there are most of them
                self.nodes[position.node].set_metrics(position.step, order, metrics)
                if order > self.order:
                    self.order = order
            case NodeAdded(node, parent, start, config, isolation_key):
                if node != len(self.nodes):
                    raise StoreError(
                        f"the plan's facts are out of order: node {node} comes where {len(self.nodes)} "
                        "is due; the store was changed by something other than Hippo"
                    )
                above = None if parent is None else self.nodes[parent]
                self._add(above, start, config, isolation_key)
            case FailureRecorded(order, position, error, suspended, evaluation):
                node_failed, failure = self[position.node], Failure(position.step, order, error, suspended)
                if evaluation:
                    node_failed.set_unmeasured(position.step, failure)
                elif node_failed.failure is None or position.step < node_failed.failure.step:
                    node_failed.failure = failure
                self.order = max(self.order, order)
            case FailureCleared(order, position):
                cleared = self[position.node]
                if cleared.failure is not None and cleared.failure.step == position.step:
                    cleared.failure = None
                cleared.set_unmeasured(position.step, None)
                self.order = max(self.order, order)
            case CheckpointKept(position, checkpoint):
                self._forget_bytes(position)
                self.nodes[position.node].set_checkpoint(position.step, checkpoint)
                self.bytes += checkpoint.bytes
                if checkpoint.interim:
                    self.interim[position] = None
                else:
                    self.interim.pop(position, None)
            case CheckpointDropped(position):
                self._forget_bytes(position)
                self.nodes[position.node].set_checkpoint(position.step, None)
                self.interim.pop(position, None)
            case StateRecorded(position):
                self.fingerprints[position] = fact
            case ProofRecorded(kind, position):
                self.proofs.append(fact)
                if kind == "rehearsal":
                    self.rehearsed[fact.platform] = position.step
                if kind == "audit":
                    self.fingerprints.pop(position, None)
            case StudyBegan(study):
                self.tunings[study] = fact, None
            case StudyEnded(study, tuning):
                began, _ = self.tunings.get(study, (None, None))
                if began is not None and began.tuning == tuning:
                    self.tunings[study] = began, fact
            case CheckpointPinned(position, _, pinned):
                if pinned:
                    self.pinned.add(position)
                else:
                    self.pinned.discard(position)
            case _:
                pass

    def _forget_bytes(self, position: Position) -> None:
        before = self.nodes[position.node].checkpoints.get(position.step)
        if before is not None:
            self.bytes -= before.bytes

    # What is known.

    def failure_on_the_way(self, node: Node, step: int) -> Failure | None:
        """Return what keeps `node` from reaching `step`, if anything does.

        What lies before a checkpoint need not be trained, and keeps nothing from going on.
        """
        return next((above.failure for above in self._failed_on_the_way(node, step)), None)

    def _failed_on_the_way(self, node: Node, step: int) -> Iterator[Node]:
        """Yield the nodes on the way to `step` of `node` along which training cannot go on, nearest first."""
        for above in node.lineage():
            kept = max((at for at in above.checkpoints if at <= step), default=-1)
            if above.failure is not None and kept < above.failure.step <= step:
                yield above
            if kept >= 0:
                return
            step = above.start

    def obstacles(self, node: Node, step: int) -> list[Position]:
        """Return where training and evaluation have failed on the way to `step` of `node`."""
        failed = [(above.id, above.failure) for above in self._failed_on_the_way(node, step)]
        found = [Position(number, failure.step) for number, failure in failed if failure is not None]
        for above in node.lineage():
            found += [Position(above.id, at) for at in above.unmeasured if at <= step]
            step = min(step, above.start)
        return found

    def left_out(self, platform: str) -> tuple[tuple[str, ...], float]:
        """Return what proofs have found to differ each time, and how far floats do on a platform."""
        names = dict.fromkeys(name for each in self.proofs for name in each.volatile)
        spreads = (each.spread for each in self.proofs if each.platform in ("", platform))
        return tuple(names), max(spreads, default=0.0)

    def nearest_checkpoint(self, node: Node, step: int) -> Position | None:
        """Return the last checkpoint at or before `step` on the path to `node`; None means from scratch."""
        for above in node.lineage():
            kept = [at for at in above.checkpoints if at <= step]
            if kept:
                return Position(above.id, max(kept))
            step = min(step, above.start)
        return None

    def unshared(self, config: Config, step: int) -> int:
        """Return how many steps a config is away from `step`, from the nearest checkpoint on its path."""
        node, parts = self.follow(config, step, "")
        kept = None if node is None else self.nearest_checkpoint(node, step if parts is None else parts)
        return step if kept is None else step - kept.step

    def repeated(self, config: Config, step: int) -> tuple[int, int] | None:
        """Return where a config leaves what was trained further, and the nearest checkpoint before that.

        None where it leaves nothing, or there is a checkpoint where it does.
        """
        node, parts = self.follow(config, step, "")
        if node is None or parts is None or max((*node.metrics, *node.checkpoints), default=0) <= parts:
            return None
        kept = self.nearest_checkpoint(node, parts)
        nearest = 0 if kept is None else kept.step
        return None if nearest == parts else (parts, nearest)

    def checkpoints(self) -> Iterator[tuple[Position, Checkpoint]]:
        """Yield everything that is kept."""
        for node in self.nodes:
            for step, checkpoint in node.checkpoints.items():
                yield Position(node.id, step), checkpoint


def steps_needed(asks: Iterable[tuple[Node, int]]) -> dict[Node, int]:
    """Return the step up to which each node has to be trained for asks: pairs of a node and a step on it."""
    needed: dict[Node, int] = {}
    for node, step in asks:
        known = needed.get(node)
        if known is not None and known >= step:
            continue
        needed[node] = step
        while known is None and node.parent is not None:
            step, node = node.start, node.parent
            known = needed.get(node)
            if known is not None and known >= step:
                break
            needed[node] = step
    return needed


def unique_steps(asks: Iterable[tuple[Node, int]]) -> int:
    """Return how many steps it takes to train every node as far as asked, each shared step once."""
    return sum(step - node.start for node, step in steps_needed(asks).items())


def spans_of(asks: Iterable[tuple[Node, int]], spans: Iterable[SpanRecorded]) -> list[SpanRecorded]:
    """Return the worker time spent on the requested steps, by any study.

    A span is part of it if its first step is; one without steps, if it is where the asks lead.
    """
    reached = {node.id: step for node, step in steps_needed(asks).items()}
    return [span for span in spans if min(span.first + 1, span.last) <= reached.get(span.node, -1)]
