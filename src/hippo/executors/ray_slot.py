"""A slot of a Ray cluster as the driver sees it: one actor after the other, and what is heard of them.

    retired ◀──▶ waiting ──▶ joined ──▶ lost ──▶ waiting ...     three actors in a row that fail: given up

An actor waits until the cluster has room for it. Orders go to it in calls that come back when it has
something to say. So there is always a call under way, but for the moment after a lease, when another one is
likely to come: then that brings the call. A slot has a thread of its own, which waits for its calls.
"""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hippo.engine.commands import ExecutorCommand, RunLease
from hippo.engine.events import LeaseFailed, LeaseFinished, WorkerJoined, WorkerLost
from hippo.executors.base import Emit
from hippo.executors.ray_actors import Actors
from hippo.executors.ray_worker import Messages, Order, Settled
from hippo.executors.shipping import encode
from hippo.executors.wide import Part

# How long a call to an actor whose lease is over waits for the next lease, to go with it.
_RIDE_SECONDS = 0.005

Hear = Callable[["RaySlot", Messages | Exception], None]


class RaySlot:
    """One slot. All but `carry_out` and `end` is called under the lock of the crew.

    `hear` is called in the slot's own thread with what its actor says, or with the error where it is gone.

    Attributes
    ----------
    announced : set[int]
        The workers on this slot that the engine counts on.
    given_up : str or None
        Why no worker can work here.
    place : Settled or None
        Where the actor is.
    failed_starts : int
        How many actors in a row did not come up.
    """

    def __init__(self, number: int, workers: Sequence[int], actors: Actors, emit: Emit, hear: Hear) -> None:
        self.number = number
        self.workers = workers
        self.announced: set[int] = set()
        self.given_up: str | None = None
        self.place: Settled | None = None
        self.failed_starts = 0
        self._actors = actors
        self._emit = emit
        self._hear = hear
        self._calling = threading.RLock()  # `close` may be called by the garbage collector, in any thread
        self._actor: Any = None
        self._exchange: Any = None
        self._turn = 0
        self._calls: queue.SimpleQueue[tuple[Any, Any] | None] = queue.SimpleQueue()
        self._ride = 0.0
        self._thread = threading.Thread(target=self._live, name=f"ray-slot-{number}", daemon=True)
        self._thread.start()

    @property
    def joined(self) -> bool:
        """Whether there is an actor with a worker that works."""
        return self._actor is not None and bool(self.announced)

    @property
    def waiting(self) -> bool:
        """Whether there is an actor none of whose workers can work yet."""
        return self._actor is not None and not self.announced

    @property
    def placed(self) -> bool:
        """Whether there is an actor that the cluster had room for."""
        return self._actor is not None and self.place is not None

    @property
    def retired(self) -> bool:
        """Whether nothing is to be expected of this slot."""
        return self._actor is None and self.given_up is None

    def start(self) -> None:
        """Have an actor made, as soon as the cluster has room for it."""
        with self._calling:
            self._actor = self._actors.make(self.workers)
            self._exchange = self._actor.exchange.options(enable_task_events=False)
            self._turn = 0
        self.place = None
        self._order()

    def announce(self, worker: int) -> None:
        """Have the engine count on a worker."""
        self.announced.add(worker)
        self._emit(WorkerJoined(worker, self.number))

    def forget(self, worker: int, reason: str) -> None:
        """Say that a worker is lost, if the engine counts on it."""
        if worker in self.announced:
            self.announced.remove(worker)
            self._emit(WorkerLost(worker, reason))

    def carry_out(self, worker: int, command: ExecutorCommand | Part) -> bool:
        """Pass a command on; False where the worker is gone, and its loss announced. For any thread."""
        if self.given_up is not None and isinstance(command, RunLease):
            self._emit(LeaseFailed(command.lease, command.start, self.given_up, "contract"))
        if not self.joined or worker not in self.announced:
            return False
        self._order(("carry out", worker, encode(command)))
        return True

    def end(self, worker: int, reason: str) -> None:
        """Have the process of a worker replaced. For any thread."""
        self._order(("end", worker, reason.encode()))

    def ask_to_close(self) -> None:
        """Let the actor's processes finish their saves and end."""
        self._order(("close", self.workers[0], b""))

    def lose(self, reason: str) -> None:
        """End the actor, and say that its workers are lost."""
        lost = sorted(self.announced)
        self.retire()
        for worker in lost:
            self._emit(WorkerLost(worker, reason))

    def retire(self) -> None:
        """End the actor without a word, and have no other until told to start again."""
        with self._calling:
            actor, self._actor = self._actor, None
        self.announced.clear()
        self.given_up = None
        if actor is not None:
            self._actors.kill(actor)

    def close(self) -> None:
        """End the actor without a word, for ever."""
        self.retire()
        self._calls.put(None)

    def join(self) -> None:
        """Wait until the slot is closed."""
        self._thread.join()

    def _order(self, *orders: Order) -> None:
        with self._calling:
            if self._actor is not None:
                self._calls.put((self._actor, self._exchange.remote(self._turn, orders)))
                self._turn += 1

    # The slot's own thread.

    def _live(self) -> None:
        try:
            while (call := self._next_call()) is not None:
                actor, reference = call
                said: Messages | Exception
                try:
                    said = pickle.loads(self._actors.get(reference))
                except Exception as error:
                    said = error
                if actor is self._actor:  # and not one that was given up meanwhile
                    self._hear(self, said)
                    self._ride = _RIDE_SECONDS if _is_over(said) else 0.0
        finally:  # also where `emit` raises: nobody is left to listen then
            self.retire()

    def _next_call(self) -> tuple[Any, Any] | None:
        """Return the next call to wait for, making one that only listens where no other comes in time."""
        while True:
            try:
                return self._calls.get(timeout=None if self._actor is None else self._ride)
            except queue.Empty:
                self._order()


def _is_over(said: Messages | Exception) -> bool:
    """Return whether a lease is over, so that another may come at any moment."""
    return not isinstance(said, Exception) and any(
        isinstance(message, LeaseFinished | LeaseFailed) for _, message in said
    )
