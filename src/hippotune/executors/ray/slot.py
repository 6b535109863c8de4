"""A slot of a Ray cluster as the driver sees it: one actor after the other, and what is heard of them.

    retired ◀──▶ waiting ──▶ joined ──▶ lost ──▶ waiting ...     three actors in a row that fail: given up
       ▲                        └──▶ leaving ──┐
       └───────────────────────────────────────┘

An actor waits until the cluster has room for it. Orders are calls of it, messages come by a stream, and Ray
says when the actor is gone, and why. All of this happens on the event loop of the pool.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from hippotune.errors import HippoError
from hippotune.executors.base import Emit
from hippotune.executors.local.slot import patience_with
from hippotune.executors.ray.actor import ActorCommand, ActorSpec, Messages, RayWorker, Ready
from hippotune.executors.ray.cluster import Cluster, SlotResources
from hippotune.executors.ray.gang import Gang
from hippotune.executors.shipping import encode
from hippotune.executors.worker.wide import Part
from hippotune.protocol.commands import ExecutorCommand, RunLease
from hippotune.protocol.events import LeaseFailed, WorkerJoined, WorkerLeaving, WorkerLost
from hippotune.protocol.failures import LossKind

# What the namespaces of executors begin with.
NAMESPACE = "hippo-"

Hear = Callable[["RaySlot", Any, Messages | Exception], None]


class Actors:
    """Makes actors on a cluster, with names that people find in Ray's tools: ``hippo/STUDY/worker-N``.

    The namespace is the executor's own, so that a study of the same name elsewhere is not in the way.
    """

    def __init__(
        self,
        cluster: Cluster,
        kinds: Sequence[SlotResources],
        runtime_env: Mapping[str, Any] | None,
        spec: ActorSpec,
        study: str,
    ) -> None:
        self._cluster = cluster
        self._kinds = kinds
        self._prefix = f"hippo/{study}"
        namespace = f"{NAMESPACE}{secrets.token_hex(8)}"
        options: dict[str, Any] = {"max_restarts": 0, "namespace": namespace}
        if runtime_env and not cluster.carries_environment:
            options["runtime_env"] = cluster.uploaded(runtime_env)
        self._class = cluster.ray.remote(RayWorker)
        self._options = options
        self._spec = cluster.ray.put(spec)  # to every node once, however many slots it has

    def make(self, kind: int, workers: Sequence[int], times: int, where: Mapping[str, Any]) -> Any:
        """Have an actor made that holds a slot; it comes up when there is room for it."""
        name = f"{self._prefix}/worker-{'+'.join(map(str, workers))}" + (f".{times}" if times else "")
        options = {**self._options, **self._kinds[kind].options(), **where}
        return self._class.options(**options, name=name).remote(name, workers, self._spec)

    def gang(self, kind: int, size: int, number: int) -> Gang:
        """Have the cluster hold room for some slots together."""
        return Gang(self._cluster, self._kinds[kind], size, f"{self._prefix}/gang-{number}")

    def kill(self, actor: Any) -> None:
        """End an actor at once, and with it its processes. For any thread."""
        if self._cluster.is_up:
            with suppress(Exception):  # it may be dead already, and then it need not be killed
                self._cluster.ray.kill(actor)


class RaySlot:
    """One slot.

    `hear` is called with an actor and what it says, or the error where it is gone; it has to ask whether the
    slot still `holds` this actor.

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
    gang : tuple[Gang, int] or None
        What it is placed together with, and which member of it the slot is.
    leaving : bool
        Whether the slot is to be given back as soon as the engine needs it no more.
    """

    def __init__(
        self, number: int, kind: int, workers: Sequence[int], actors: Actors, emit: Emit, hear: Hear
    ) -> None:
        self.number = number
        self.kind = kind
        self.workers = workers
        self.announced: set[int] = set()
        self.given_up: str | None = None
        self.place: Ready | None = None
        self.failed_starts = 0
        self.gang: tuple[Gang, int] | None = None
        self.leaving = False
        self._actors = actors
        self._emit = emit
        self._hear = hear
        self._actor: Any = None
        self._made = itertools.count()
        self._orders = itertools.count()
        self._listening: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

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

    @property
    def is_held(self) -> bool:
        """Whether the cluster holds a place for it, with its gang."""
        return self.gang is not None and not self.gang[0].is_over

    @property
    def counts(self) -> bool:
        """Whether the slot is one of those that there are to be."""
        return not self.retired and not self.leaving

    def holds(self, actor: Any) -> bool:
        """Whether an actor is the present one, and was not given up meanwhile."""
        return actor is self._actor

    def start(self) -> None:
        """Have an actor made, as soon as the cluster has room for it."""
        self.place = None
        self._orders = itertools.count()
        where: Mapping[str, Any] = {}
        if self.gang is not None and self.is_held:
            gang, member = self.gang
            gang.hold(member)
            where = gang.options(member)
        self._actor = self._actors.make(self.kind, self.workers, next(self._made), where)
        self._listening = asyncio.create_task(self._listen(self._actor))

    def announce(self, worker: int, platform: str = "") -> None:
        """Have the engine count on a worker."""
        self.announced.add(worker)
        host = "" if self.place is None else self.place.node
        self._emit(WorkerJoined(worker, self.number, platform, host, self.kind))

    def leave(self) -> None:
        """Say that the workers are to go; the engine answers when it needs them no more."""
        self.leaving = True
        for worker in sorted(self.announced):
            self._emit(WorkerLeaving(worker))

    def release(self, worker: int) -> None:
        """The engine needs a worker no more; the last of the slot ends the actor when its saves are over."""
        self.leaving = True
        self.announced.discard(worker)
        if not self.announced:
            self.ask_to_close()

    def forget(self, worker: int, reason: str, kind: LossKind) -> None:
        """Say that a worker is lost, if the engine counts on it."""
        if worker in self.announced:
            self.announced.remove(worker)
            self._emit(WorkerLost(worker, reason, kind))

    def carry_out(self, worker: int, command: ExecutorCommand | Part) -> bool:
        """Pass a command on; False where the worker is gone, and its loss announced."""
        if self.given_up is not None and isinstance(command, RunLease):
            self._emit(LeaseFailed(command.lease, command.start, self.given_up, "contract"))
        if not self.joined or worker not in self.announced:
            return False
        self._order(("deliver", worker, encode(command), patience_with(command)))
        return True

    def end(self, worker: int, reason: str) -> None:
        """Have the process of a worker replaced."""
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
        self.abandon()
        self._actor = None
        self.announced.clear()
        self.given_up = None
        self.leaving = False
        if self.gang is not None:
            gang, member = self.gang
            gang.release(member)
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    def abandon(self) -> None:
        """End the actor at once. For any thread."""
        if (actor := self._actor) is not None:
            self._actors.kill(actor)

    def close(self) -> None:
        """End the actor without a word, for ever."""
        self.retire()
        self._closed.set()

    async def join(self) -> None:
        """Wait until the slot is closed."""
        await self._closed.wait()

    def _order(self, order: ActorCommand) -> None:
        if (actor := self._actor) is None:
            return
        loop = asyncio.get_running_loop()

        def done(answer: Future[None]) -> None:
            if isinstance(error := answer.exception(), Exception):  # it would wait for this order for ever
                loop.call_soon_threadsafe(self._hear, self, actor, error)

        actor.order.remote(next(self._orders), order).future().add_done_callback(done)

    async def _listen(self, actor: Any) -> None:
        """Stay with an actor to its end."""
        try:
            async for said in actor.events.options(num_returns="streaming").remote():
                self._hear(self, actor, await said)
        except Exception as error:
            self._hear(self, actor, error)
        else:
            self._hear(self, actor, HippoError("it has nothing more to say"))
