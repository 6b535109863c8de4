"""The worker slots as the engine sees them: which are idle, and which state each holds in memory."""

from __future__ import annotations

from collections.abc import Iterator

from hippo.errors import IllegalTransition
from hippo.plan.facts import Position


class Workers:
    """Slots that are up. An idle one may hold a state: work that starts there needs no loading."""

    def __init__(self) -> None:
        self.idle: dict[int, None] = {}
        self.busy: dict[int, int] = {}
        self._holds: dict[int, Position] = {}
        self._holder: dict[Position, int] = {}
        self._unsaved: dict[int, None] = {}
        self._stirred: dict[int, None] = {}

    def join(self, worker: int) -> None:
        """A slot is up and holds nothing."""
        if worker in self.idle or worker in self.busy:
            raise IllegalTransition(f"worker {worker} joined twice without being lost in between")
        self.idle[worker] = None

    def leave(self, worker: int) -> None:
        """A slot is gone."""
        self._let_go(worker)
        self.idle.pop(worker, None)
        self.busy.pop(worker, None)

    def take(self, worker: int, lease: int) -> None:
        """An idle slot goes to work, and away from the state that it held."""
        self._let_go(worker)
        del self.idle[worker]
        self.busy[worker] = lease

    def finish(self, worker: int, holds: Position | None, saved: bool) -> None:
        """A slot is idle again; `saved` says whether the state that it holds is in a checkpoint too."""
        del self.busy[worker]
        self.idle[worker] = None
        if holds is not None:
            self._holds[worker] = holds
            self._holder[holds] = worker
            if not saved:
                self._unsaved[worker] = self._stirred[worker] = None

    def saved(self, position: Position) -> None:
        """The state at a position is in a checkpoint now."""
        if (worker := self._holder.get(position)) is not None:
            self._unsaved.pop(worker, None)
            self._stirred.pop(worker, None)

    def dropped(self, position: Position) -> None:
        """The checkpoint of the state at a position is gone; whoever holds it is the only one again."""
        if (worker := self._holder.get(position)) is not None and worker in self.idle:
            self._unsaved[worker] = self._stirred[worker] = None

    def holds(self, worker: int) -> Position | None:
        """Return the position of the state that an idle slot holds."""
        return self._holds.get(worker)

    def unsaved(self) -> Iterator[tuple[int, Position]]:
        """Yield the idle slots whose state nobody else can start from yet."""
        for worker in self._unsaved:
            yield worker, self._holds[worker]

    def stirred(self) -> Iterator[tuple[int, Position]]:
        """Yield those of them that may have work to go on with."""
        for worker in list(self._stirred):
            yield worker, self._holds[worker]

    def stir(self, position: Position) -> None:
        """There may be work from the state at a position."""
        worker = self._holder.get(position)
        if worker is not None and worker in self._unsaved:
            self._stirred[worker] = None

    def rest(self, worker: int) -> None:
        """There is no work from the state that a slot holds."""
        self._stirred.pop(worker, None)

    def choose(self, source: Position | None) -> int:
        """Return the idle slot that is best for work from `source`: the one that holds it, or any."""
        if source is not None and (holder := self._holder.get(source)) is not None:
            return holder
        for worker in self.idle:
            if worker not in self._unsaved:
                return worker
        return next(iter(self.idle))

    def _let_go(self, worker: int) -> None:
        position = self._holds.pop(worker, None)
        if position is not None and self._holder.get(position) == worker:
            del self._holder[position]
        self._unsaved.pop(worker, None)
        self._stirred.pop(worker, None)
