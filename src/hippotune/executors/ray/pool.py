"""All slots of an executor on Ray: replaced where they are lost, and as many as there is work for.

A slot that is not needed is given back. One on a node that is drained moves, and so does one that others wait
for while the executor has more than its share of the cluster: what it trains is saved first.

A thread of its own runs an event loop, on which everything here happens. What the engine wants done is put
there too.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from hippotune.executors.base import Emit
from hippotune.executors.local.worker_groups import WorkerGroups
from hippotune.executors.ray.actor import ActorSpec, Closed, Failed, Message, Messages, Ready
from hippotune.executors.ray.cluster import Cluster, ClusterState, SlotResources
from hippotune.executors.ray.metrics import Metrics
from hippotune.executors.ray.slot import NAMESPACE, Actors, RaySlot
from hippotune.executors.worker.wide import parts
from hippotune.protocol.commands import ExecutorCommand, RunLease
from hippotune.protocol.events import LeaseStarted, WorkerJoined, WorkerLost

_log = logging.getLogger("hippotune")

_MOST_FAILED_STARTS = 3
# How often the cluster is asked what it has.
_LOOK_SECONDS = 1.0
# How long it may take until an actor is up before people hear that room for it is waited for.
_SAY_SECONDS = 10.0
# How long slots are then placed one by one that were wanted together.
_SCATTER_SECONDS = 300.0
# How long others wait for a slot before one of those above the executor's share is given to them.
_YIELD_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an executor is to have: slots of several kinds, the most modest first.

    `slots` None is as many as the cluster's nodes have room for.
    """

    kinds: Sequence[SlotResources]
    slots: int | None
    packing: int
    runtime_env: Mapping[str, Any] | None


class RayPool:
    """See the module. Worker w is on slot w // packing."""

    def __init__(self, cluster: Cluster, wanted: Wanted, spec: ActorSpec, study: str, emit: Emit) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._emit = emit
        self._actors = Actors(cluster, wanted.kinds, wanted.runtime_env, spec, study)
        self._metrics = Metrics()
        self._closing = False
        self._slots: list[RaySlot] = []
        self._groups = WorkerGroups()
        self._cluster_state: ClusterState | None = None
        self._demand: Mapping[int, int] = {}
        self._together = 1
        self._most: int | None = None
        self._alone_at = monotonic()
        self._placed_at: dict[int, float] = {}
        self.restart_seconds = 0.0
        self._gangs_at = monotonic()
        self._heard_at = monotonic()
        self._told_silent = False
        self._complete_at = monotonic()
        self._warned = False
        self._lookout: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hippo-ray", daemon=True)

    @property
    def size(self) -> int:
        """How many slots there are to be now."""
        return sum(slot.counts for slot in self._slots)

    @property
    def capacity(self) -> int:
        """How many slots there can be: as many as were wanted, or as the cluster has room for."""
        return self._wanted.slots or max(
            1, 0 if self._cluster_state is None else sum(self._cluster_state.slots)
        )

    # For any thread.

    def start(self) -> None:
        """Have the first actors made."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    def carry_out(self, command: ExecutorCommand) -> None:
        """Send a command to its worker, and a lease with peers to all of them; returns at once."""
        self._loop.call_soon_threadsafe(self._carry_out, command)

    def demand(self, slots: Mapping[int, int], together: int) -> None:
        """There is work for this many slots of each kind; one lease may have several of them."""
        self._loop.call_soon_threadsafe(self._take_demand, slots, together)

    def release(self, worker: int) -> None:
        """A worker that was leaving is not needed any more."""
        self._loop.call_soon_threadsafe(self._release, worker)

    def close(self) -> None:
        """Let saves that are under way finish, then end all actors. Waits for it."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def abandon(self) -> None:
        """End all actors at once, without waiting for their work."""
        self._closing = True
        for slot in self._slots:
            slot.abandon()

    # On the event loop.

    async def _start(self) -> None:
        self._take_in(self._cluster.state(self._wanted.kinds))
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
            workers = command.workers
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
                self._placed_at[slot.number] = monotonic()
            case Failed(reason):
                self._give_up(slot, reason)
            case Closed() if self._closing:
                slot.close()
            case Closed():
                slot.retire()
                self._resize()
            case WorkerJoined() if slot.leaving:  # its process was replaced meanwhile
                slot.release(worker)
            case WorkerJoined():
                slot.failed_starts = 0
                took = monotonic() - self._placed_at[slot.number]
                self.restart_seconds = max(self.restart_seconds, took)
                slot.announce(worker, message.platform)
            case WorkerLost(_, reason, kind):
                slot.forget(worker, reason, kind)
                self._end_those_bound_to(worker)
            case _:
                if isinstance(message, LeaseStarted):  # `prepare` runs before the first
                    self.restart_seconds = max(self.restart_seconds, message.seconds)
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
        was_leaving = slot.leaving
        slot.failed_starts = 0 if slot.joined else slot.failed_starts + 1
        where = "" if slot.place is None else f" on {slot.place}"
        reason = f"the actor of slot {slot.number}{where} is gone: {error}"
        slot.lose(reason)
        for worker in slot.workers:
            self._end_those_bound_to(worker)
        if self._closing:
            slot.close()
        elif was_leaving:
            self._resize()
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

    # How many slots.

    def _take_demand(self, slots: Mapping[int, int], together: int) -> None:
        self._demand, self._together = slots, together
        self._grow()

    def _release(self, worker: int) -> None:
        slot = self._slot_of(worker)
        if slot.joined:
            slot.release(worker)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                cluster = await asyncio.to_thread(self._cluster.state, self._wanted.kinds)
            except Exception as error:  # a cluster that does not answer now may do so later
                self._say_silent(error)
            else:
                self._heard_at, self._told_silent = monotonic(), False
                self._take_in(cluster)

    def _say_silent(self, error: Exception) -> None:
        if not self._told_silent and monotonic() - self._heard_at > _SAY_SECONDS:
            self._told_silent = True
            _log.warning(
                "the head of the Ray cluster does not answer. Where it is restarted with fault tolerance "
                "(RAY_REDIS_ADDRESS), training goes on; without, Ray ends this process after a minute, and "
                "the same script run again goes on from what was saved: %s",
                error,
            )

    def _take_in(self, cluster: ClusterState) -> None:
        """Adjust to what the cluster has."""
        before, self._cluster_state = self._cluster_state, cluster
        if before is None or cluster.nodes != before.nodes:
            for slot in self._slots:
                if slot.given_up is not None:  # it may do better elsewhere
                    slot.lose(slot.given_up)
        for slot in self._slots:
            if slot.joined and not slot.leaving and slot.place and slot.place.node in cluster.draining:
                _log.warning("%s is drained: what slot %d trains is saved and moves", slot.place, slot.number)
                slot.leave()
        self._give_way(cluster)
        self._resize()
        self._say_what_is_waited_for(cluster)

    def _give_way(self, cluster: ClusterState) -> None:
        """Where others wait for room, have no more than a share of the cluster, after a while."""
        others = cluster.waiting - sum(slot.waiting and not slot.placed for slot in self._slots)
        if others <= 0:
            self._alone_at, self._most = monotonic(), None
        elif monotonic() - self._alone_at > _YIELD_SECONDS:
            self._alone_at = monotonic()
            share = max(1, sum(cluster.slots) // max(2, self._cluster.namespaces(NAMESPACE)))
            self._most = max(share, self.size - 1)
            working = [slot for slot in self._slots if slot.joined and not slot.leaving]
            if len(working) > self._most:
                _log.warning("others wait for the cluster: slot %d is given back", working[-1].number)
                working[-1].leave()

    def _resize(self) -> None:
        """Have as many slots as there is work for. Those that are up stay, until the engine releases them."""
        for kind in range(len(self._wanted.kinds)):
            for slot in reversed(self._slots):
                if slot.kind == kind and slot.waiting and self._missing(kind) < 0:
                    slot.retire()
        self._grow()

    def _missing(self, kind: int) -> int:
        """Return how many slots of a kind there should be beyond those that there are; below 0, too many."""
        there = sum(slot.counts for slot in self._slots if slot.kind == kind)
        most = self._demand.get(kind, 0)
        if self._wanted.slots is None and self._cluster_state is not None:
            most = min(most, max(self._cluster_state.slots[kind], 1 if len(self._wanted.kinds) == 1 else 0))
        limit = self.capacity if self._most is None else min(self.capacity, self._most)
        return min(most, limit - self.size + there) - there

    def _grow(self) -> None:
        for kind in () if self._closing else range(len(self._wanted.kinds)):
            missing = max(self._missing(kind), 0)
            spare = [slot for slot in self._slots if slot.kind == kind and slot.retired]
            held = [slot for slot in spare if slot.is_held][:missing]
            for slot in held:
                slot.start()
            missing -= len(held)
            while missing > 0:
                size = min(self._together, missing) if self._gangs_at <= monotonic() else 1
                self._start_together(kind, size)
                missing -= size

    def _start_together(self, kind: int, size: int) -> None:
        """Have slots that have no actor, new ones where there are not enough, placed together."""
        packing = self._wanted.packing
        spare = [slot for slot in self._slots if slot.kind == kind and slot.retired and not slot.is_held]
        while len(spare) < size:
            number = len(self._slots)
            workers = range(number * packing, (number + 1) * packing)
            spare.append(RaySlot(number, kind, workers, self._actors, self._emit, self._hear))
            self._slots.append(spare[-1])
        gang = self._actors.gang(kind, size, spare[0].number) if size > 1 else None
        for member, slot in enumerate(spare[:size]):
            slot.gang = None if gang is None else (gang, member)
            slot.start()

    def _say_what_is_waited_for(self, cluster: ClusterState) -> None:
        if all(slot.placed for slot in self._slots if slot.waiting):
            self._complete_at, self._warned = monotonic(), False
        elif not self._warned and monotonic() - self._complete_at > _SAY_SECONDS:
            self._warned = True
            self._break_up_gangs()
            free = cluster.describe(
                dict.fromkeys(name for kind in self._wanted.kinds for name in kind.amounts)
            )
            if not all(cluster.slots):
                free += ", and no node can hold a slot even when it is idle"
            _log.warning(
                "waiting for the cluster: it has found room for %d of %d slots, each takes %s. Free now: %s",
                sum(slot.placed for slot in self._slots),
                self.size,
                ", or ".join(map(str, self._wanted.kinds)),
                free,
            )

    def _break_up_gangs(self) -> None:
        """Have slots one by one that the cluster finds no room for together."""
        self._gangs_at = monotonic() + _SCATTER_SECONDS
        for slot in self._slots:
            if slot.waiting and not slot.placed and slot.is_held:
                slot.retire()
        self._grow()
