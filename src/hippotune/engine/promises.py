"""The one record of what leases have promised to evaluate and to save.

A promise is made by a lease, for a step on its path. It is listed by lease (`lease.evaluations` and
`lease.saves`), which is what its worker is told, and by node and step, which is what no other lease needs to
start. Both lists are written here and nowhere else, so they always say the same.

A promise ends when it is kept or broken. What was promised by a lease alone and is broken goes back to the
frontier, and so do the requests that waited for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set

from hippotune.engine.lease import Lease
from hippotune.plan.facts import Position
from hippotune.plan.node import Node
from hippotune.stages.frontier import Frontier


class Ledger:
    """Promises of one kind. `places` has the leases that promise something, by node and step.

    `changed` hears where something is promised, and was not before, or the other way round.
    """

    def __init__(self, changed: Callable[[Node, int], None]) -> None:
        self.count = 0
        self._changed = changed
        self._steps: dict[Lease, set[int]] = {}
        self._places: dict[Node, dict[int, dict[Lease, None]]] = {}

    @property
    def places(self) -> Mapping[Node, Mapping[int, Mapping[Lease, None]]]:
        """The same promises, by node and step."""
        return self._places

    def open(self, lease: Lease) -> None:
        """A lease begins; it promises nothing yet."""
        self._steps[lease] = set()

    def of(self, lease: Lease) -> Set[int]:
        """Return the steps that a lease promises something at: always the present ones."""
        return self._steps[lease]

    def close(self, lease: Lease) -> None:
        """A lease that promises nothing any more is forgotten."""
        assert not self._steps[lease]
        del self._steps[lease]

    def add(self, lease: Lease, step: int) -> None:
        """A lease promises something at a step."""
        if step not in self._steps[lease]:
            self.count += 1
            self._steps[lease].add(step)
            node = lease.node_at(step)
            leases = self._places.setdefault(node, {}).setdefault(step, {})
            leases[lease] = None
            if len(leases) == 1:
                self._changed(node, step)

    def discard(self, lease: Lease, step: int) -> bool:
        """A promise is over; return whether there was one and no other lease has made the same."""
        if step not in self._steps[lease]:
            return False
        self.count -= 1
        self._steps[lease].discard(step)
        node = lease.node_at(step)
        leases = self._places[node][step]
        del leases[lease]
        if leases:
            return False
        del self._places[node][step]
        if not self._places[node]:
            del self._places[node]
        self._changed(node, step)
        return True

    def at(self, node: Node, step: int) -> list[Lease]:
        """Return the leases that promise something at a step of a node."""
        return list(self._places.get(node, {}).get(step, ()))

    def items(self) -> Iterator[tuple[Lease, int]]:
        """Yield all promises, by lease."""
        for lease, steps in self._steps.items():
            for step in steps:
                yield lease, step


class Promises:
    """See the module. `frontier` reads what is promised from the two ledgers."""

    def __init__(self) -> None:
        self.evaluations = Ledger(lambda node, step: self.frontier.changed(node, step))
        self.saves = Ledger(lambda node, step: self.frontier.changed(node, step - 1))
        self.frontier = Frontier(self.evaluations.places, self.saves.places)
        # Requests that have their metrics and wait for a checkpoint only, with their studies.
        self.waiting_for_save: dict[Position, dict[int, str]] = {}

    def open(self, lease: Lease) -> None:
        """A lease begins; it promises nothing yet."""
        self.evaluations.open(lease)
        self.saves.open(lease)
        lease.evaluations, lease.saves = self.evaluations.of(lease), self.saves.of(lease)

    def close(self, lease: Lease) -> None:
        """A lease is over, and so are its promises."""
        self.evaluations.close(lease)
        self.saves.close(lease)

    def is_evaluated(self, node: Node, step: int) -> bool:
        """Whether a lease will evaluate at a step of a node."""
        return step in self.evaluations.places.get(node, ())

    def is_saved(self, node: Node, step: int) -> bool:
        """Whether a lease will save at a step of a node."""
        return step in self.saves.places.get(node, ())

    # For requests.

    def wait_for_save(self, node: Node, step: int, request: int, study: str) -> bool:
        """Let a request wait for a checkpoint that is on its way; False where there is none."""
        if not self.is_saved(node, step):
            return False
        self.waiting_for_save.setdefault(Position(node.id, step), {})[request] = study
        return True

    def withdraw(self, node: Node, step: int, request: int) -> None:
        """A request does not wait for a step any more; what no other waits for is not evaluated."""
        if self.frontier.withdraw(node, step, request):
            for lease in self.evaluations.at(node, step):
                self.evaluations.discard(lease, step)
        position = Position(node.id, step)
        waiting = self.waiting_for_save.get(position, {})
        waiting.pop(request, None)
        if not waiting:
            self.waiting_for_save.pop(position, None)

    # For leases.

    def kept_save(self, lease: Lease, step: int) -> list[int]:
        """A checkpoint is there; return the requests that waited for it."""
        self.saves.discard(lease, step)
        node = lease.node_at(step)
        self.frontier.arrived(node, step)
        return list(self.waiting_for_save.pop(Position(node.id, step), ()))

    def break_save(self, lease: Lease, step: int) -> None:
        """A lease will not save at a step after all."""
        if not self.saves.discard(lease, step):
            return
        node = lease.node_at(step)
        for request, study in self.waiting_for_save.pop(Position(node.id, step), {}).items():
            self.frontier.ask(node, step, request, True, study)

    def release(self, lease: Lease, keep_saves_until: int | None) -> None:
        """A lease's workers are off it: it evaluates nothing more, and saves no further than to a step."""
        for step in sorted(lease.evaluations):
            self.evaluations.discard(lease, step)
        for step in sorted(lease.saves):
            if keep_saves_until is None or step > keep_saves_until:
                self.break_save(lease, step)
