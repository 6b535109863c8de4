"""Turns: which studies pay for a lease, and when it makes room for others.

While a study waits for a slot, and was served less than the studies that a lease is for, the lease ends where
its stage ends, or, once it has run for `checkpoint_every` seconds, at the end of its step. Then the next
study gets the slot. Where other plans wait (`OthersWait`), the slot is released instead. Nothing is lost by
that or trained twice: training goes on from the checkpoint where the lease ended. Where no study waits,
leases are as long as the work is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.lease import Lease
from hippotune.engine.lease_updates import LeaseUpdates
from hippotune.engine.scheduler import Scheduler
from hippotune.engine.state import State
from hippotune.engine.workers import WorkerEvents
from hippotune.protocol.commands import Wake
from hippotune.protocol.events import (
    Event,
    NumbersLogged,
    Progressed,
    StateFingerprinted,
    Woken,
    WorkerLeaving,
)
from hippotune.stages.waiting import waiting_below

# These do not change which studies wait.
_PROGRESS = (Progressed, NumbersLogged, StateFingerprinted)


@dataclass(eq=False, repr=False)
class Turns:
    """See the module. A turn lasts at least `seconds`; with None it ends at the end of a stage only."""

    _state: State
    _scheduler: Scheduler
    _updates: LeaseUpdates
    _checkpoints: Checkpoints
    _workers: WorkerEvents
    _seconds: float | None

    def begin(self) -> None:
        """Before leases are started: charge the running ones, and release slots that other plans wait for."""
        state = self._state
        if len(state.frontier.wanting) > 1:
            for lease in state.leases.running():
                state.leases.charge(lease, state.now)
        workers, most = state.workers, state.most_slots
        while most is not None and workers.staying > most and (slot := workers.idle_slot()) is not None:
            for worker in slot:
                self._workers.worker_leaving(WorkerLeaving(worker))

    def end(self, event: Event) -> None:
        """After leases were started: find who pays for them, and end turns that are over."""
        state = self._state
        if isinstance(event, Woken):
            state.now = max(state.now, event.at)
        if not isinstance(event, _PROGRESS):
            self._find_payers(event)
        waiting = self._scheduler.waiting() if len(state.frontier.wanting) > 1 else frozenset()
        state.leases.accounts.wait(waiting)
        if not state.halted and not state.paused:
            in_the_way = state.leases.in_the_way_of(self._scheduler.first(waiting)) if waiting else ()
            for lease in (*in_the_way, *self._above_what_stays()):
                self._cut(lease)

    # Who pays.

    def _find_payers(self, event: Event) -> None:
        state, number = self._state, getattr(event, "lease", None)
        wanting = state.frontier.wanting.keys()
        alone = wanting if len(wanting) == 1 else None
        leases = [lease for lease in state.leases.training() if lease.payers != alone]
        if leases:
            touched = {along for node in state.frontier.touched for along in node.lineage()}
            for lease in leases:
                is_new = lease.id == number or lease.began == state.now
                if is_new or any(node in touched for node, _, _ in lease.path):
                    payers = self._payers(lease)
                    if payers and payers != lease.payers:
                        state.leases.charge(lease, state.now, payers)
        state.frontier.touched.clear()

    def _payers(self, lease: Lease) -> set[str]:
        """Return the studies that wait for what a lease still brings."""
        frontier, at = self._state.frontier, lease.at
        payers = waiting_below(frontier, lease.node_at(min(at + 1, lease.path[-1][2])), at)
        want = frontier.wants.get(lease.node_at(at), {}).get(at)
        return payers if want is None or at not in lease.evaluations else payers | want.studies.keys()

    # Whose turn is over.

    def _above_what_stays(self) -> Iterator[Lease]:
        """Yield the leases that have to end so that the plan has no more slots than it may keep."""
        if (most := self._state.most_slots) is None:
            return
        excess = Fraction(self._state.workers.staying - most)
        for lease in sorted(self._state.leases.training(), key=self._nearest_first):
            if excess <= 0:
                return
            excess -= lease.width
            yield lease

    def _nearest_first(self, lease: Lease) -> tuple[bool, float, int]:
        end = self._boundary(lease)
        return not lease.cut, (end - lease.at) * lease.node_at(end).pace, lease.id

    def _boundary(self, lease: Lease) -> int:
        """Return where the stage ends that a lease is in."""
        ends = (*lease.saves, *(end for _, _, end in lease.path), lease.end)
        return min((step for step in ends if lease.at < step <= lease.end), default=lease.end)

    def _cut(self, lease: Lease) -> None:
        """End a lease soon: at a boundary, or, if its turn is over, at the end of its step."""
        state, over = self._state, lease.began + (math.inf if self._seconds is None else self._seconds)
        is_over = over <= state.now
        if lease.cut == "at a step" or (lease.cut and not is_over):
            return
        end = max(lease.at, lease.start + 1) if is_over else self._boundary(lease)
        if end not in lease.saves and not self._checkpoints.has_room_to_stop():
            return
        lease.cut = "at a step" if is_over else "at a boundary"
        if not is_over and over < math.inf:
            state.commands.append(Wake(over))
        lease.record(state.now, f"to end {lease.cut}: others wait")
        lease.stopping = True
        self._updates.stop_at(lease, end)
