"""All slots of an executor on Ray: replaced where they are lost, and as many as the cluster has room for.

A thread of its own runs an event loop, on which everything here happens. What the engine wants done is put
there too.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from hippotune.executors.base import Emit
from hippotune.executors.local.worker_groups import WorkerGroups
from hippotune.executors.ray.actor import ActorSpec, Closed, Failed, Message, Messages, Ready
from hippotune.executors.ray.cluster import Cluster, Room, SlotResources
from hippotune.executors.ray.metrics import Metrics
from hippotune.executors.ray.slot import Actors, RaySlot
from hippotune.executors.worker.wide import parts
from hippotune.protocol.commands import ExecutorCommand, RunLease
from hippotune.protocol.events import WorkerJoined, WorkerLost

_log = logging.getLogger("hippotune")

_MOST_FAILED_STARTS = 3
# How often the cluster is asked what it has.
_LOOK_SECONDS = 1.0
# How long it may take until an actor is up before people hear that room for it is waited for.
_SAY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an executor is to have. `slots` None is as many as the cluster's nodes have room for."""

    resources: SlotResources
    slots: int | None
    packing: int
    runtime_env: Mapping[str, Any] | None


class RayPool:
    """See the module. Worker w is on slot w // packing."""

    def __init__(self, cluster: Cluster, wanted: Wanted, spec: ActorSpec, study: str, emit: Emit) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._emit = emit
        self._actors = Actors(cluster, wanted.resources, wanted.runtime_env, spec, study)
        self._metrics = Metrics()
        self._closing = False
        self._slots: list[RaySlot] = []
        self._groups = WorkerGroups()
        self._nodes: frozenset[str] = frozenset()
        self._complete_at = monotonic()
        self._warned = False
        self._lookout: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hippo-ray", daemon=True)

    @property
    def size(self) -> int:
        """How many slots there are to be."""
        return sum(not slot.retired for slot in self._slots)

    # For any thread.

    def start(self) -> None:
        """Have the first actors made."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    def carry_out(self, command: ExecutorCommand) -> None:
        """Send a command to its worker, and a lease with peers to all of them; returns at once."""
        self._loop.call_soon_threadsafe(self._carry_out, command)

    def close(self) -> None:
        """Let saves that are under way finish, then end all actors. Waits for it."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def abandon(self) -> None:
        """End all actors at once, whatever they are doing."""
        self._closing = True
        for slot in self._slots:
            slot.abandon()

    # On the event loop.

    async def _start(self) -> None:
        self._take_in(self._cluster.room(self._wanted.resources))
        self._lookout = asyncio.create_task(self._look())

    async def _close(self) -> None:
        self._closing = True
        if self._lookout is not None:
            self._lookout.cancel()
        for slot in self._slots:
            if slot.joined:
                slot.ask_to_close()
            else:
                slot.close()
        for slot in self._slots:
            await slot.join()

    def _carry_out(self, command: ExecutorCommand) -> None:
        if self._closing or not self._cluster.is_up:
            return
        lead = self._slot_of(command.worker)
        if isinstance(command, RunLease):
            self._metrics.begin(command)
        if not isinstance(command, RunLease) or not command.peers:
            lead.carry_out(command.worker, command)
        elif (place := lead.place) is not None:
            workers = (command.worker, *command.peers)
            self._groups.form(command.lease, workers)
            for part in parts(command, f"{place.meeting}/lease-{command.lease}"):
                if not self._slot_of(part.worker).carry_out(part.worker, part):
                    # It is lost already, and was not yet on the lease then.
                    self._end_those_bound_to(part.worker)
                    return

    def _slot_of(self, worker: int) -> RaySlot:
        return self._slots[worker // self._wanted.packing]

    def _hear(self, slot: RaySlot, actor: Any, said: Messages | Exception) -> None:
        if not slot.holds(actor):
            return
        if isinstance(said, Exception):
            self._replace(slot, said)
        else:
            for worker, message in said:
                self._pass_on(slot, worker, message)

    def _pass_on(self, slot: RaySlot, worker: int, message: Message) -> None:
        match message:
            case Ready():
                slot.place = message
            case Failed(reason):
                self._give_up(slot, reason)
            case Closed():
                slot.close()
            case WorkerJoined():
                slot.failed_starts = 0
                slot.announce(worker, message.platform)
            case WorkerLost(_, reason, kind):
                slot.forget(worker, reason, kind)
                self._end_those_bound_to(worker)
            case _:
                if self._groups.counts(message):
                    self._metrics.observe(message)
                    self._emit(message)

    def _end_those_bound_to(self, worker: int) -> None:
        """Where one of several that train together is lost, all are ended."""
        for other in self._groups.lose(worker):
            reason = f"was ended: worker {worker}, which it trained with, is lost"
            self._slot_of(other).end(other, reason)

    def _replace(self, slot: RaySlot, error: Exception) -> None:
        """Have another actor made for one that is gone."""
        slot.failed_starts = 0 if slot.joined else slot.failed_starts + 1
        where = "" if slot.place is None else f" on {slot.place}"
        reason = f"the actor of slot {slot.number}{where} is gone: {error}"
        slot.lose(reason)
        for worker in slot.workers:
            self._end_those_bound_to(worker)
        if self._closing:
            slot.close()
        elif slot.failed_starts == _MOST_FAILED_STARTS:
            self._give_up(slot, f"{_MOST_FAILED_STARTS} actors in a row did not come up. The last: {reason}")
        else:
            slot.start()

    def _give_up(self, slot: RaySlot, reason: str) -> None:
        """Leave the work to the other slots; the last one reports the failure to the engine."""
        slot.lose(reason)
        slot.failed_starts = 0
        slot.given_up = reason
        if any(other.waiting or other.joined for other in self._slots):
            _log.warning("slot %d is given up, the others go on: %s", slot.number, reason)
        else:
            slot.announce(slot.workers[0])

    # What the cluster has.

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            with suppress(Exception):  # a cluster that does not answer now may do so later
                self._take_in(await asyncio.to_thread(self._cluster.room, self._wanted.resources))

    def _take_in(self, room: Room) -> None:
        """Adjust to what the cluster has."""
        if room.nodes != self._nodes:
            self._nodes = room.nodes
            self._resize(self._wanted.slots or max(1, room.slots))
        self._say_what_is_waited_for(room)

    def _resize(self, wanted: int) -> None:
        """Have as many slots as wanted. Those that work stay; what was given up tries again."""
        for slot in self._slots:
            if slot.given_up is not None:
                slot.lose(slot.given_up)
        for slot in reversed(self._slots):
            if slot.waiting and self.size > wanted:
                slot.retire()
        for slot in self._slots:
            if slot.retired and self.size < wanted:
                slot.start()
        while self.size < wanted:
            self._add_slot()

    def _add_slot(self) -> None:
        number, packing = len(self._slots), self._wanted.packing
        workers = range(number * packing, (number + 1) * packing)
        slot = RaySlot(number, workers, self._actors, self._emit, self._hear)
        self._slots.append(slot)
        slot.start()

    def _say_what_is_waited_for(self, room: Room) -> None:
        if all(slot.placed for slot in self._slots if slot.waiting):
            self._complete_at, self._warned = monotonic(), False
        elif not self._warned and monotonic() - self._complete_at > _SAY_SECONDS:
            self._warned = True
            free = room.describe(self._wanted.resources.amounts)
            if not room.slots:
                free += ", and no node can hold a slot even when it is idle"
            _log.warning(
                "waiting for the cluster: it has found room for %d of %d slots, each takes %s. Free now: %s",
                sum(slot.placed for slot in self._slots),
                self.size,
                self._wanted.resources,
                free,
            )
