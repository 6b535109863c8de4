"""The workers as the engine sees them: which are idle, and on which slots.

A worker is a process that trains one lease at a time; a slot is the device, or the share of the machine, that
it trains on. There is one worker for each slot, or several, where leases are packed: then they take the slot
together, each on a part of it, or one of them takes it whole while the others of that slot rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from fractions import Fraction

from hippotune.engine.held_states import HeldStates
from hippotune.errors import IllegalTransition
from hippotune.plan.facts import Position

# Kinds of slots by their numbers; None for any.
Kinds = frozenset[int] | None


class WorkerTable:
    """Workers that are up, with the states that the idle ones hold."""

    def __init__(self) -> None:
        self.idle: dict[int, None] = {}
        self.busy: dict[int, int] = {}
        self._slot: dict[int, int] = {}
        self._host: dict[int, str] = {}
        self._kind: dict[int, int] = {}
        self._seats: dict[int, dict[int, None]] = {}
        self._taken: dict[int, dict[int, Fraction]] = {}
        self._free: dict[int, None] = {}
        self._partly: dict[int, None] = {}
        self.states = HeldStates()
        self._pristine: set[int] = set()
        self._platform: dict[int, str] = {}
        self._leaving: set[int] = set()
        self.released: list[int] = []

    def join(self, worker: int, slot: int, platform: str = "", host: str = "", kind: int = 0) -> None:
        """A worker is up on a slot of a host and holds nothing."""
        if worker in self._slot:
            raise IllegalTransition(f"worker {worker} joined twice without being lost in between")
        self._slot[worker] = slot
        self._platform[worker] = platform
        self._host[slot], self._kind[slot] = host, kind
        self._seats.setdefault(slot, {})[worker] = None
        self.idle[worker] = None
        self._pristine.add(worker)
        self._look(slot)

    def remove(self, worker: int) -> None:
        """A worker is gone."""
        self.states.forget(worker)
        self._leaving.discard(worker)
        self._pristine.discard(worker)
        self._platform.pop(worker, None)
        self.idle.pop(worker, None)
        self.busy.pop(worker, None)
        slot = self._slot.pop(worker, None)
        if slot is not None:
            del self._seats[slot][worker]
            self._taken.get(slot, {}).pop(worker, None)
            if not self._seats[slot]:
                del self._seats[slot], self._host[slot], self._kind[slot]
            self._look(slot)

    def release(self, worker: int) -> None:
        """A worker is to go: at once, or when the lease that it is on is over. Then it is `released`."""
        if worker in self.busy:
            self._leaving.add(worker)
        elif worker in self.idle:
            self.remove(worker)
            self.released.append(worker)

    def take(self, worker: int, lease: int, width: Fraction) -> None:
        """An idle worker goes to work, on its slot or a part of it, and away from the state that it held."""
        self.states.forget(worker)
        del self.idle[worker]
        self._pristine.discard(worker)
        self.busy[worker] = lease
        slot = self._slot[worker]
        self._taken.setdefault(slot, {})[worker] = min(width, Fraction(1))
        self._look(slot)

    def join_lease(self, lease: int, leader: int, kinds: Kinds) -> int:
        """Have another idle worker, with a whole slot and near its leader, go to work on a lease."""
        worker = self.choose(None, near=leader, kinds=kinds)
        self.take(worker, lease, Fraction(1))
        return worker

    def finish(self, worker: int, holds: Position | None, saved: bool) -> None:
        """A worker is idle again; `saved` says whether the state that it holds is in a checkpoint too."""
        if worker in self._leaving:
            self.remove(worker)
            self.released.append(worker)
            return
        del self.busy[worker]
        self.idle[worker] = None
        slot = self._slot[worker]
        del self._taken[slot][worker]
        self._look(slot)
        if holds is not None:
            self.states.hold(worker, holds, saved)

    def _look(self, slot: int) -> None:
        """See what can be had of a slot: all of it, a part of it, or nothing."""
        self._free.pop(slot, None)
        self._partly.pop(slot, None)
        taken = self._taken.get(slot, {})
        if not taken:
            self._taken.pop(slot, None)
            if slot in self._seats:
                self._free[slot] = None
        elif sum(taken.values()) < 1 and any(worker in self.idle for worker in self._seats.get(slot, ())):
            self._partly[slot] = None

    @property
    def slots(self) -> int:
        """The number of slots with a worker on them."""
        return len(self._seats)

    def kind_of(self, slot: int) -> int:
        """Return of which kind a slot is."""
        return self._kind[slot]

    def kinds_there(self) -> Counter[int]:
        """Return how many slots there are of each kind."""
        return Counter(self._kind[slot] for slot in self._seats)

    def kinds_taken(self, but: Set[int]) -> Counter[int]:
        """Return how many slots of each kind have a lease of others than some workers."""
        return Counter(self._kind[slot] for slot, parts in self._taken.items() if parts.keys() - but)

    @property
    def staying(self) -> int:
        """The number of slots that none of their workers is about to leave."""
        return sum(self._leaving.isdisjoint(workers) for workers in self._seats.values())

    def idle_slot(self) -> list[int] | None:
        """Return the workers of a slot that stays and has room for a lease; None if there is none."""
        for slot in (*reversed(self._free), *reversed(self._partly)):
            if self._leaving.isdisjoint(self._seats[slot]):
                return list(self._seats[slot])
        return None

    def idle_slots(self) -> dict[int, list[int]]:
        """Return the slots that no lease has, with their workers."""
        return {slot: list(self._seats[slot]) for slot in self._free}

    @property
    def free(self) -> int:
        """The number of slots that no lease has."""
        return len(self._free)

    def free_of(self, kinds: Kinds) -> int:
        """Return the number of slots of some kinds that no lease has."""
        return len(self._free) if kinds is None else sum(self._kind[slot] in kinds for slot in self._free)

    def has_room_for(self, kinds: Kinds) -> bool:
        """Whether a slot of one of these kinds has room for another lease."""
        if kinds is None:
            return self.slots_with_room > 0
        return any(self._kind[slot] in kinds for slot in (*self._free, *self._partly))

    def suits(self, worker: int, kinds: Kinds) -> bool:
        """Whether a worker is on a slot of one of these kinds."""
        return kinds is None or self._kind[self._slot[worker]] in kinds

    @property
    def slots_with_room(self) -> int:
        """The number of slots that have room for another lease, if only for a packed one."""
        return len(self._free) + len(self._partly)

    def has_whole(self, worker: int) -> bool:
        """Whether an idle worker could have its slot to itself."""
        return self._slot[worker] in self._free

    def has_place(self, worker: int) -> bool:
        """Whether an idle worker could work on its slot, or on a part of it."""
        slot = self._slot[worker]
        return slot in self._free or slot in self._partly

    def is_pristine(self, worker: int) -> bool:
        """Whether a worker has been given nothing yet."""
        return worker in self._pristine

    def platform(self, worker: int) -> str:
        """Return the platform of a worker that is up."""
        return self._platform[worker]

    def is_there(self, platform: str | None) -> bool:
        """Whether a worker of a platform is up, or of any where it is None; or none is up at all."""
        return not self._platform or platform is None or platform in self._platform.values()

    def idle_for(self, width: Fraction, platform: str | None = None, kinds: Kinds = None) -> list[int]:
        """Return the idle workers with room for a width of at most 1; last those with an unsaved state.

        With a platform or kinds of slots, those of that one, and on these.
        """
        has_room = self.has_whole if width >= 1 else self.has_place
        able = [
            each
            for each in self.idle
            if has_room(each) and platform in (None, self._platform[each]) and self.suits(each, kinds)
        ]
        return sorted(able, key=self.states.is_only_one)

    def choose(
        self,
        source: Position | None,
        whole: bool = True,
        shunned: Set[int] = frozenset(),
        near: int | None = None,
        kinds: Kinds = None,
    ) -> int:
        """Return the idle worker that is best for work from `source`: the one that holds it, or any.

        Those that are `shunned` come last, those on the host of `near` first.

        With `whole` it gets its slot to itself; otherwise a slot that others are on goes before a free one.
        """
        holder = None if source is None else self.states.holder(source)
        if (
            holder is not None
            and holder not in shunned
            and self.suits(holder, kinds)
            and (self.has_whole(holder) if whole else self.has_place(holder))
        ):
            return holder
        spare = None
        slots = [*self._free] if whole else [*self._partly, *self._free]
        if near is not None:
            host = self._host[self._slot[near]]
            slots.sort(key=lambda slot: self._host[slot] != host)
        if kinds is not None:  # the first kind is the most modest
            slots = sorted((slot for slot in slots if self._kind[slot] in kinds), key=self.kind_of)
        for slot in slots:
            for worker in self._seats[slot]:
                if worker in self.idle:
                    if not self.states.is_only_one(worker) and worker not in shunned:
                        return worker
                    if spare is None or (spare in shunned and worker not in shunned):
                        spare = worker
        assert spare is not None, "there is no idle worker"
        return spare

    def faults(self) -> Iterator[str]:
        """Yield where the lists contradict each other."""
        for each in sorted(self.idle.keys() & self.busy.keys()):
            yield f"worker {each} is idle and busy"
        up = self.idle.keys() | self.busy.keys()
        for what, listed in (("slots", self._slot), ("platforms", self._platform)):
            for each in sorted(up ^ listed.keys()):
                yield f"worker {each} is on one side only: in the list of {what}, or idle or busy"
        on_slots = {(slot, worker) for slot, workers in self._seats.items() for worker in workers}
        for slot, each in sorted(on_slots ^ {(slot, worker) for worker, slot in self._slot.items()}):
            yield f"worker {each} is on slot {slot} on one side only"
        for each in sorted(self._leaving - self.busy.keys()):
            yield f"worker {each} is leaving and has nothing to finish"
        for each in sorted(self._pristine - self.idle.keys()):
            yield f"worker {each} was given nothing yet and is not idle"
        for slot, parts in self._taken.items():
            if parts.keys() - self.busy.keys() or not 0 < sum(parts.values()) <= 1:
                yield f"slot {slot} is taken by workers {sorted(parts)}, {sum(parts.values())} of it in all"
        partly = {
            slot
            for slot, parts in self._taken.items()
            if sum(parts.values()) < 1 and self.idle.keys() & self._seats.get(slot, {}).keys()
        }
        for slot in sorted((self._seats.keys() - self._taken.keys()) ^ self._free.keys()):
            yield f"slot {slot} is free on one side only"
        for slot in sorted(partly ^ self._partly.keys()):
            yield f"slot {slot} has room for a packed lease on one side only"
        for listed in (self._host, self._kind):
            for slot in sorted(listed.keys() ^ self._seats.keys()):
                yield f"slot {slot} has a host and a kind, or workers, but not both"
        yield from self.states.faults(self.idle)
