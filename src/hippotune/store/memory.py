"""A store that lasts as long as its object: for virtual time, where nothing has to outlive the process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hippotune.errors import StoreError
from hippotune.plan.facts import (
    CheckpointDropped,
    CheckpointKept,
    Fact,
    FailureCleared,
    FailureRecorded,
    MeasuredSteps,
    MetricsRecorded,
    NodeAdded,
    NumbersRecorded,
    Position,
    ProofRecorded,
    RequestMade,
    SpanRecorded,
    StateRecorded,
)
from hippotune.store.base import Store


class MemoryStore(Store):
    """Facts in memory. Closing keeps them, so the same object can be handed to the next study."""

    def __init__(self) -> None:
        self._nodes: dict[int, NodeAdded] = {}
        self._results: dict[int, MetricsRecorded | FailureRecorded | FailureCleared] = {}
        self._checkpoints: dict[Position, CheckpointKept] = {}
        self._requests: dict[RequestMade, None] = {}
        self._spans: list[SpanRecorded] = []
        self._proofs: list[StateRecorded | ProofRecorded] = []
        self._logged: dict[int, list[NumbersRecorded]] = {}

    def write(self, facts: Sequence[Fact]) -> None:
        """Take facts in, all or none."""
        self._check(facts)
        for fact in facts:
            match fact:
                case NodeAdded():
                    self._nodes[fact.node] = fact
                case MetricsRecorded() | FailureRecorded() | FailureCleared():
                    self._results[fact.order] = fact
                case CheckpointKept():
                    self._checkpoints[fact.position] = fact
                case CheckpointDropped():
                    self._checkpoints.pop(fact.position, None)
                case RequestMade():
                    self._requests.setdefault(fact)
                case SpanRecorded():
                    self._spans.append(fact)
                case StateRecorded():
                    self._proofs.append(fact)
                case ProofRecorded(kind, position):
                    self._proofs = [
                        each
                        for each in self._proofs
                        if kind != "audit" or isinstance(each, ProofRecorded) or each.position != position
                    ]
                    self._proofs.append(fact)
                case NumbersRecorded():
                    self._logged.setdefault(fact.node, []).append(fact)

    def _check(self, facts: Sequence[Fact]) -> None:
        nodes: set[int] = set()
        orders: set[int] = set()
        for fact in facts:
            match fact:
                case NodeAdded(node=node):
                    if node in self._nodes or node in nodes:
                        raise StoreError(f"the plan has a node {node} already; node ids are given once")
                    nodes.add(node)
                case (
                    MetricsRecorded(order=order) | FailureRecorded(order=order) | FailureCleared(order=order)
                ):
                    if order in self._results or order in orders:
                        raise StoreError(f"the plan has a result {order} already; orders are given once")
                    orders.add(order)

    def read(self) -> Iterator[Fact]:
        """Yield what is still so."""
        yield from (self._nodes[node] for node in sorted(self._nodes))
        yield from (self._checkpoints[position] for position in sorted(self._checkpoints))
        yield from (self._results[order] for order in sorted(self._results))
        yield from self._proofs
        yield from self._requests

    def spans(self) -> Iterator[SpanRecorded]:
        """Yield the worker time that was recorded."""
        yield from self._spans

    def step_times(self) -> Iterator[MeasuredSteps]:
        """Yield what steps took by node and width, the least recently trained first."""
        totals: dict[tuple[int, float], tuple[int, float]] = {}
        for span in self._spans:
            if span.kind == "train" and span.seconds is not None and span.last > span.first:
                steps, seconds = totals.pop((span.node, span.width), (0, 0.0))
                totals[span.node, span.width] = (steps + span.last - span.first, seconds + span.seconds)
        for (node, width), (steps, seconds) in totals.items():
            yield MeasuredSteps(node, width, steps, seconds)

    def logged(self, node: int) -> Iterator[NumbersRecorded]:
        """Yield what was logged along a node."""
        yield from self._logged.get(node, ())

    def close(self) -> None:
        """Do nothing: facts live as long as the object."""
