"""A slot of a Ray cluster as the driver sees it: one actor after the other, and what is heard of them.

    retired ◀──▶ waiting ──▶ joined ──▶ lost ──▶ waiting ...     three actors in a row that fail: given up

An actor waits until the cluster has room for it. When it is up, it is called: orders and messages go over a
line, and Ray says when the actor is gone, and why. A slot has a thread of its own, which stays with one actor
after the other to its end.
"""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from hippotune.errors import HippoError
from hippotune.executors.base import Emit
from hippotune.executors.local.channel import Channel
from hippotune.executors.local.slot import patience_with
from hippotune.executors.ray.actor import Messages, Order, Ready
from hippotune.executors.ray.actors import Actors
from hippotune.executors.ray.network import call
from hippotune.executors.shipping import encode
from hippotune.executors.worker.wide import Part
from hippotune.protocol.commands import ExecutorCommand, RunLease
from hippotune.protocol.events import LeaseFailed, WorkerJoined, WorkerLost
from hippotune.protocol.failures import LossKind

# How long it may take Ray to notice that an actor whose connection closed is gone.
_NOTICE_SECONDS = 5.0

Hear = Callable[["RaySlot", Any, Messages | Exception], None]


class RaySlot:
    """One slot. Its state changes under the pool's lock, unless it has left the pool.

    `hear` is called in the slot's own thread with an actor and what it says, or the error where it is gone;
    it has to ask, under that lock, whether the slot still `holds` this actor.

    Attributes
    ----------
    announced : set[int]
        The workers on this slot that the engine counts on.
    given_up : str or None
        Why no worker can work here.
    place : Ready or None
        Where the actor is.
    failed_starts : int
        How many actors in a row did not come up.
    """

    def __init__(
        self,
        number: int,
        workers: Sequence[int],
        actors: Actors,
        secret: bytes,
        emit: Emit,
        hear: Hear,
    ) -> None:
        self.number = number
        self.workers = workers
        self.announced: set[int] = set()
        self.given_up: str | None = None
        self.place: Ready | None = None
        self.failed_starts = 0
        self._actors = actors
        self._secret = secret
        self._emit = emit
        self._hear = hear
        self._actor: Any = None
        self._channel: Channel | None = None
        self._made: queue.SimpleQueue[Any] = queue.SimpleQueue()
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

    def holds(self, actor: Any) -> bool:
        """Whether an actor is the present one, and was not given up meanwhile."""
        return actor is self._actor

    def start(self) -> None:
        """Have an actor made, as soon as the cluster has room for it."""
        self.place = None
        self._actor = self._actors.make(self.workers)
        self._made.put(self._actor)

    def announce(self, worker: int, platform: str = "") -> None:
        """Have the engine count on a worker."""
        self.announced.add(worker)
        self._emit(WorkerJoined(worker, self.number, platform))

    def forget(self, worker: int, reason: str, kind: LossKind) -> None:
        """Say that a worker is lost, if the engine counts on it."""
        if worker in self.announced:
            self.announced.remove(worker)
            self._emit(WorkerLost(worker, reason, kind))

    def carry_out(self, worker: int, command: ExecutorCommand | Part) -> bool:
        """Pass a command on; False where the worker is gone, and its loss announced. For any thread."""
        if self.given_up is not None and isinstance(command, RunLease):
            self._emit(LeaseFailed(command.lease, command.start, self.given_up, "contract"))
        if not self.joined or worker not in self.announced:
            return False
        self._order(("deliver", worker, encode(command), patience_with(command)))
        return True

    def end(self, worker: int, reason: str) -> None:
        """Have the process of a worker replaced. For any thread."""
        self._order(("end", worker, reason.encode(), 0))

    def ask_to_close(self) -> None:
        """Let the actor's processes finish their saves and end."""
        self._order(("close", self.workers[0], b"", 0))

    def lose(self, reason: str) -> None:
        """End the actor, and say that its workers are lost."""
        lost = sorted(self.announced)
        self.retire()
        for worker in lost:
            self._emit(WorkerLost(worker, reason, "infrastructure"))

    def retire(self) -> None:
        """End the actor without a word, and have no other until told to start again."""
        actor, self._actor = self._actor, None
        self.announced.clear()
        self.given_up = None
        if actor is not None:
            self._actors.kill(actor)
        if (channel := self._channel) is not None:
            channel.disconnect()

    def close(self) -> None:
        """End the actor without a word, for ever."""
        self.retire()
        self._made.put(None)

    def join(self) -> None:
        """Wait until the slot is closed."""
        self._thread.join()

    def _order(self, order: Order) -> None:
        if (channel := self._channel) is not None:
            channel.send(pickle.dumps(order, protocol=5))

    # The slot's own thread.

    def _live(self) -> None:
        try:
            while (actor := self._made.get()) is not None:
                self._hear(self, actor, self._see_through(actor))
        finally:  # also where `emit` raises: the study is closing
            self.retire()

    def _see_through(self, actor: Any) -> Exception:
        """Stay with an actor to its end; return why it is gone."""
        try:
            found = self._actors.settle(actor)
        except Exception as error:
            return error
        self._hear(self, actor, [(self.workers[0], found)])
        if not isinstance(found, Ready):
            return HippoError(found.reason)
        try:
            end = self._actors.end(actor)
            channel = call((found.address, found.port), self._secret)
        except Exception as error:
            return error
        end.add_done_callback(lambda _: channel.disconnect())
        self._channel = channel
        try:
            while self.holds(actor):
                said = _received(channel)
                if isinstance(said, EOFError):
                    break
                self._hear(self, actor, said)
        finally:
            self._channel = None
            channel.close()
        return _cause(end) if self.holds(actor) else HippoError("it was told to end")


def _received(channel: Channel) -> Messages | Exception:
    """Wait for what is said next; return an `EOFError` at the end, and any other where it makes no sense."""
    try:
        messages: Messages = pickle.loads(channel.wait())
    except Exception as error:
        return error
    return messages


def _cause(end: Future[None]) -> Exception:
    """Return what Ray says of an actor whose connection has closed."""
    try:
        end.result(_NOTICE_SECONDS)
    except TimeoutError:
        pass
    except Exception as error:
        return error
    return HippoError("its connection closed, and Ray does not say why")
