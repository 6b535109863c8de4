"""A store that lasts as long as its object: for virtual time, where nothing has to outlive the process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from secrets import token_hex

from hippotune.errors import StoreError
from hippotune.plan.facts import (
    Action,
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
from hippotune.store.base import Store, Written


class MemoryStore(Store):
    """Facts in memory. Closing keeps them, so the same object can be handed to the next study."""

    def __init__(self) -> None:
        self._incarnation = token_hex(8)
        self._log: list[Fact] = []
        self._nodes: dict[int, NodeAdded] = {}
        self._results: dict[int, MetricsRecorded | FailureRecorded | FailureCleared] = {}
        self._checkpoints: dict[Position, CheckpointKept] = {}
        self._requests: dict[RequestMade, None] = {}
        self._spans: list[SpanRecorded] = []
        self._noted: dict[Position, int] = {}
        self._actions: list[Action] = []
        self._logged: dict[int, list[NumbersRecorded]] = {}

    @property
    def incarnation(self) -> str:
        """The id of the log."""
        return self._incarnation

    @property
    def last_number(self) -> int:
        """The number of the last fact in the log."""
        return len(self._log)

    def facts(self, after: int = 0, limit: int | None = None) -> Iterator[tuple[int, Fact]]:
        """Yield the facts after a number."""
        last = len(self._log) if limit is None else min(len(self._log), after + limit)
        for number in range(after + 1, last + 1):
            yield number, self._log[number - 1]

    def write(self, facts: Sequence[Fact]) -> Written:
        """Take facts in, all or none."""
        self._check(facts)
        written = Written(len(self._log) + 1, [])
        for fact in facts:
            if not isinstance(fact, RequestMade) or fact not in self._requests:
                self._take_in(fact)
                self._log.append(fact)
                written.facts.append(fact)
        return written

    def _take_in(self, fact: Fact) -> None:
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
                self._requests[fact] = None
            case SpanRecorded():
                self._spans.append(fact)
            case StateRecorded():
                self._noted[fact.position] = len(self._log)
            case ProofRecorded(kind, position):
                if kind == "audit" and (at := self._noted.pop(position, None)) is not None:
                    noted = self._log[at]
                    assert isinstance(noted, StateRecorded)
                    self._log[at] = replace(noted, fingerprint=b"")
            case NumbersRecorded():
                self._logged.setdefault(fact.node, []).append(fact)
            case _:
                self._actions.append(fact)

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
        proofs = [fact for fact in self._log if isinstance(fact, StateRecorded | ProofRecorded)]
        yield from (fact for fact in proofs if isinstance(fact, ProofRecorded) or fact.fingerprint)
        yield from self._requests
        yield from self._actions

    def spans(self) -> Iterator[SpanRecorded]:
        """Yield the worker time that was recorded."""
        yield from self._spans

    def step_times(self) -> Iterator[MeasuredSteps]:
        """Yield what steps took by node and width, the least recently trained first."""
        totals: dict[tuple[int, float], tuple[int, float]] = {}
        for span in self._spans:
            if (taken := span.steps_seconds) is not None:
                steps, seconds = totals.pop((span.node, span.width), (0, 0.0))
                totals[span.node, span.width] = (steps + span.last - span.first, seconds + taken)
        for (node, width), (steps, seconds) in totals.items():
            yield MeasuredSteps(node, width, steps, seconds)

    def logged(self, node: int) -> Iterator[NumbersRecorded]:
        """Yield what was logged along a node."""
        yield from self._logged.get(node, ())

    def close(self) -> None:
        """Do nothing: facts live as long as the object."""
