"""Starts leases: after every event, free workers are given work, at the width that it is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from hippotune.engine.blame import Blame
from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.interim import Interim
from hippotune.engine.lease import Lease
from hippotune.engine.lease_updates import LeaseUpdates
from hippotune.engine.proofs import Proofs
from hippotune.engine.scheduler import Choice, Scheduler, source_of
from hippotune.engine.starting import first_orders, open_lease, send
from hippotune.engine.state import State
from hippotune.engine.width_allocator import WidthAllocator
from hippotune.protocol.events import (
    CheckpointSaved,
    Event,
    GroupSubmitted,
    LeaseFailed,
    LeaseFinished,
    OthersWait,
    RequestWithdrawn,
    Resumed,
    WidthChanged,
    Woken,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
)
from hippotune.scheduling.width import WAITS, WHOLE
from hippotune.stages.tasks import StartPoint

# After these, what runs may be worth another width.
_UNSETTLING: frozenset[type[Event]] = frozenset(
    {
        GroupSubmitted,
        RequestWithdrawn,
        OthersWait,
        Resumed,
        WidthChanged,
        WorkerJoined,
        WorkerLeaving,
        WorkerLost,
        CheckpointSaved,
        LeaseFinished,
        LeaseFailed,
        Woken,
    }
)


@dataclass(eq=False, repr=False)
class Assignment:
    """Starts leases, and stops those that are to go on at another width."""

    _state: State
    _scheduler: Scheduler
    _updates: LeaseUpdates
    _checkpoints: Checkpoints
    _proofs: Proofs
    _blame: Blame
    _interim: Interim
    _unsettled: bool = False

    def assign(self, event: Event) -> None:
        """Give work to free workers, after an event."""
        state = self._state
        is_interim = isinstance(event, CheckpointSaved) and event.checkpoint.interim
        self._unsettled |= type(event) in _UNSETTLING and not is_interim
        if state.halted or state.paused or self._scheduler.is_gathering():
            return
        self._proofs.start(urgent=True)
        self._train()
        self._proofs.start(urgent=False)
        if state.leases.by_number:
            state.slots_awaited = 0  # widths are chosen

    def _train(self) -> None:
        state = self._state
        widths = self._allocate(state.allocator) if state.allocator and self._unsettled else {}
        self._unsettled = False
        while state.workers.slots_with_room and self._has_room():
            choice = self._scheduler.next(state.now)
            if choice is None:
                return
            width = WHOLE
            if state.allocator is not None:
                place = (choice.task.node, choice.task.start)
                if place not in widths:
                    widths = self._allocate(state.allocator)  # the leases just started change them
                wish = widths.get(place, WAITS)
                if place in state.troubles:
                    wish = min(wish, WHOLE)
                width = self._scheduler.width(choice, wish, state.allocator)
                if not width:
                    return  # the free slots are kept for a lease that stops to go on wider
                if not self._proofs.width.is_proved(width):
                    self._start_narrow(choice, width, state.allocator)
                    continue
            self._start(choice, width)

    def _start_narrow(self, choice: Choice, width: Fraction, allocator: WidthAllocator) -> None:
        """Begin to prove the width that is wanted, where possible; otherwise start at one that is proved."""
        task, proof = choice.task, self._proofs.width
        if proof.resume(task, width):
            return
        if proof.can_begin(task):
            self._start(choice, WHOLE, width)
            return
        ladder = allocator.ladder(task.goal, task.start, task.end, self._state.workers.slots)
        self._start(choice, proof.proved_within(ladder, width))

    def _has_room(self) -> bool:
        """Make room for a save, if there is none; False until a save has ended or a checkpoint is deleted."""
        if not self._checkpoints.has_room() and not self._state.eviction.is_deleting:
            self._checkpoints.evict()
        return self._checkpoints.has_room()

    def _allocate(self, allocator: WidthAllocator) -> dict[StartPoint, Fraction]:
        """Ask for widths; stop the leases that are to go on at another one."""
        state, proof = self._state, self._proofs.width
        allocated = self._scheduler.allocate(allocator, state.claims, state.now)
        for lease, (step, width) in allocated.stops.items():
            if not self._checkpoints.has_room_to_stop():
                break
            if not proof.is_proved(width) and not proof.is_possible:
                continue
            lease.record(state.now, f"to stop at {step}, to go on at width {width}")
            lease.stopping, lease.claim, lease.end = True, max(width, lease.width), step
            state.changed[lease] = None
        return allocated.widths

    def _start(self, choice: Choice, width: Fraction, proves: Fraction | None = None) -> None:
        """Start a lease; its first step may prove another width."""
        state, task = self._state, choice.task
        source, worker = source_of(task), choice.worker
        trouble = state.troubles.get((task.node, task.start))
        if worker is None:
            shunned = set() if trouble is None else trouble.workers
            worker = state.workers.choose(
                source if task.start else None, width >= 1, shunned, kinds=state.kinds_for(task.goal)
            )
        warm = task.start > 0 and state.workers.states.of(worker) == source
        lease = open_lease(state, choice.study, worker, task.path(), width)
        lease.loads = task.start > 0 and not warm
        self._updates.take_on(lease)
        if proves is not None:
            self._proofs.width.adopt(lease, proves)
        self._proofs.adopt(lease)
        if state.allocator is not None and lease.peers:
            self._limit(lease, state.allocator.steps_until_review(lease))
        self._blame.isolate(lease)
        self._interim.adopt(lease)
        orders = replace(
            first_orders(state, lease, warm),
            probe=not state.probed and task.start == 0,
            patience=1 if trouble is None else trouble.patience,
        )
        send(state, lease, orders, ", warm" if warm else "")

    def _limit(self, lease: Lease, turn: int) -> None:
        """Let a wide lease end where others branch off, or after a while: then widths are chosen anew."""
        state, last = self._state, lease.start + turn
        for step in sorted(lease.saves):
            if step - lease.start >= turn // 4 and state.frontier.live_branches(lease.node_at(step), step):
                last = min(last, step)
                break
        if last < lease.end and self._checkpoints.has_room_to_stop():
            lease.stopping, lease.end = True, last
            if last not in lease.node_at(last).checkpoints:
                state.promises.saves.add(lease, last)
