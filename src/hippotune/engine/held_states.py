"""The states that idle workers hold in memory: work that starts from one there needs no loading.

Where a state is in no checkpoint yet, only its worker can go on from it. So that worker gets other work only
if no other worker is idle; it is `ready` when there may be work from its state.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from hippotune.plan.facts import Position


class HeldStates:
    """Which idle worker holds which state. Of several with one state, the last one is its holder."""

    def __init__(self) -> None:
        self._of: dict[int, Position] = {}
        self._holder: dict[Position, int] = {}
        self._unsaved: dict[int, None] = {}
        self._ready: dict[int, None] = {}

    def hold(self, worker: int, position: Position, saved: bool) -> None:
        """A worker is idle with the state at a position, which is in a checkpoint too if it is `saved`."""
        self._of[worker] = position
        self._holder[position] = worker
        if not saved:
            self._unsaved[worker] = self._ready[worker] = None

    def forget(self, worker: int) -> None:
        """A worker holds its state no more."""
        position = self._of.pop(worker, None)
        if position is not None and self._holder.get(position) == worker:
            del self._holder[position]
        self._unsaved.pop(worker, None)
        self._ready.pop(worker, None)

    def saved(self, position: Position) -> None:
        """The state at a position is in a checkpoint now."""
        if (worker := self._holder.get(position)) is not None:
            self._unsaved.pop(worker, None)
            self._ready.pop(worker, None)

    def dropped(self, position: Position) -> None:
        """The checkpoint of the state at a position is gone; a worker that holds it is the only one again."""
        if (worker := self._holder.get(position)) is not None:
            self._unsaved[worker] = self._ready[worker] = None

    def of(self, worker: int) -> Position | None:
        """Return the position of the state that a worker holds."""
        return self._of.get(worker)

    def holder(self, position: Position) -> int | None:
        """Return the worker that holds the state at a position."""
        return self._holder.get(position)

    def is_only_one(self, worker: int) -> bool:
        """Whether a worker holds a state that can be had nowhere else."""
        return worker in self._unsaved

    def unsaved(self) -> Iterator[tuple[int, Position]]:
        """Yield the workers whose state no other worker can start from yet."""
        for worker in self._unsaved:
            yield worker, self._of[worker]

    def ready(self) -> Iterator[tuple[int, Position]]:
        """Yield those of them that may have work to go on with."""
        for worker in list(self._ready):
            yield worker, self._of[worker]

    def mark_ready(self, position: Position) -> None:
        """There may be work from the state at a position."""
        worker = self._holder.get(position)
        if worker is not None and worker in self._unsaved:
            self._ready[worker] = None

    def clear(self, worker: int) -> None:
        """There is no work from the state that a worker holds."""
        self._ready.pop(worker, None)

    def faults(self, idle: Container[int]) -> Iterator[str]:
        """Yield where the lists contradict each other, or the workers that are idle."""
        for worker in self._of:
            if worker not in idle:
                yield f"worker {worker} holds a state for others and is not idle"
        for position, worker in self._holder.items():
            if self._of.get(worker) != position:
                yield f"worker {worker} is listed as the holder of {position}, which it does not hold"
        for worker in self._unsaved.keys() - self._of.keys():
            yield f"worker {worker} has an unsaved state and holds none"
        for worker in self._ready.keys() - self._unsaved.keys():
            yield f"worker {worker} is ready to go on from a state that others can start from"
