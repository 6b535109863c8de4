"""What to run next: whose turn it is, what is worth starting in time, and how wide.

This changes no state but caches of the frontier and the workers, and the claims that `allocate` meets.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from hippotune.engine.deadlines import Limit
from hippotune.engine.state import State
from hippotune.engine.width_allocator import Allocated, WidthAllocator
from hippotune.plan.facts import Position
from hippotune.plan.node import Node
from hippotune.scheduling.tail import first_task
from hippotune.scheduling.width import WAITS
from hippotune.stages.tasks import Path, StartPoint, Task

# How many tasks are looked at for one that has a slot and is done before a deadline.
_MOST_LOOKS = 200
# How many tasks are the last ones: this many for each slot, where that is no more than this in all.
_LAST_OF_SLOT, _MOST_LAST = 4, 64


def source_of(task: Task) -> Position:
    """Return the position of the state that a task starts from."""
    return Position(task.node.holder(task.start).id, task.start)


@dataclass(frozen=True, slots=True)
class Choice:
    """A task, for a study whose turn it is, and the worker if only that one can do it."""

    study: str
    task: Task
    worker: int | None = None


class Demand(NamedTuple):
    """How many slots of each kind there is work for, and how many of them one lease may have together."""

    slots: Mapping[int, int]
    together: int


class Scheduler:
    """Decides by everything that the engine knows."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._frontier = state.frontier
        self._workers = state.workers
        self._leases = state.leases

    def next(self, now: float) -> Choice | None:
        """Return the longest task of the next study: the one served least, of the user served least.

        A worker whose state is not in a checkpoint yet may go on from it if nothing that waits is longer.
        Where there is one study, its last tasks are ordered so that all workers end at about the same time.
        """
        chosen: Choice | None = None
        turns = self._turns()
        for study in turns:
            task = self._frontier.best(study)
            if task is not None and not self._can_start(study, task, now):
                task = self._first_that_can(study, now)
            if task is not None:
                chosen = Choice(study, task if len(turns) > 1 else self._of_the_last(study, task))
                break
        for node, step in self._frontier.take_ready():
            self._workers.states.mark_ready(Position(node.id, step))
        for worker, position in self._workers.states.ready():
            own = self._state.held(position)
            if own is None:
                self._workers.states.clear(worker)  # until there is work from that state again
            elif not self._workers.suits(worker, self._state.kinds_for(own.goal)):
                continue
            elif self._workers.has_place(worker):
                asker = next(
                    (each for each in self._askers(own, turns) if self._is_in_time(each, own, now)), None
                )
                if asker is not None and (
                    chosen is None or (turns[asker], -own.time) <= (turns[chosen.study], -chosen.task.time)
                ):
                    chosen = Choice(asker, own, worker)
        return chosen

    def _of_the_last(self, study: str, longest: Task) -> Task:
        """Return the task to start when few are left, none with branches; before that, the longest."""
        free, most = self._workers.slots_with_room, _LAST_OF_SLOT * self._workers.slots
        if self._state.allocator is not None or study in self._state.deadlines or most > _MOST_LAST:
            return longest
        if self._frontier.total_time(study) > most * longest.time:  # there are more
            return longest
        tasks, beyond = self._frontier.ready(most + 1, study)
        if not free < len(tasks) <= most or beyond or tasks[0] != longest or tasks[-1].time == longest.time:
            return longest
        paths = [task.path() for task in tasks] + [lease.left for lease in self._leases.training()]
        if any(self._state.kinds_for(task.goal) is not None for task in tasks) or self._has_branches(paths):
            return longest
        profile, now = self._state.profile, self._state.now
        busy = [lease.time_left(profile, now, lease.end) for lease in self._leases.running()]
        return tasks[first_task([task.time for task in tasks], [*busy, *[0.0] * free])]

    def _has_branches(self, paths: Iterable[Path]) -> bool:
        """Whether anything is wanted that leaves one of some paths."""
        for path in paths:
            along = {node for node, _, _ in path}
            for node, start, end in path:
                for step in node.branch_steps(start, end):
                    if any(branch not in along for branch in self._frontier.live_branches(node, step)):
                        return True
        return False

    def _turns(self) -> dict[str, int]:
        """Return the studies that want anything, in the order of their turns, with their places in it."""
        studies = list(self._frontier.wanting)
        if len(studies) > 1:
            studies.sort(key=self._leases.ranks())
        return {study: place for place, study in enumerate(studies)}

    def waiting(self) -> frozenset[str]:
        """Return the studies that have something to start and no slot for it."""
        if self._state.halted or self._workers.slots_with_room:
            return frozenset()
        return frozenset(study for study in self._frontier.wanting if self._frontier.best(study) is not None)

    def first(self, studies: Collection[str]) -> str:
        """Return the study whose turn is next, of some."""
        return min((each for each in self._frontier.wanting if each in studies), key=self._leases.ranks())

    def _askers(self, task: Task, turns: Mapping[str, int]) -> list[str]:
        """Return the studies that wait for a task's end, in the order of their turns."""
        return sorted(self._frontier.wants[task.goal][task.end].studies, key=turns.__getitem__)

    # In time.

    def out_of(self, study: str, now: float) -> Limit | None:
        """Return the limit within which nothing of a study is worth starting, if there is one."""
        tasks, _ = self._frontier.ready(_MOST_LOOKS, study)
        obstacles = [self._obstacle(study, task, now) for task in tasks]
        if not obstacles or None in obstacles:
            return None
        return "budget" if "budget" in obstacles else "deadline"

    def _is_in_time(self, study: str, task: Task, now: float) -> bool:
        """Whether anything that a task brings can be heard within the study's limits."""
        return study not in self._state.deadlines or self._obstacle(study, task, now) is None

    def _obstacle(self, study: str, task: Task, now: float) -> Limit | None:
        """Return the limit that keeps a study from hearing of anything that a task brings, if one does."""
        profile, allocator = self._state.profile, self._state.allocator
        needed = self._frontier.nearest(task) * (profile.usual or 0.0)
        fastest = 1.0 if allocator is None else allocator.fastest(task, self._workers.free)
        taken = self._leases.spent(study, now) + self._leases.to_spend(study, now, profile)
        return self._state.deadlines.obstacle(study, now + needed / fastest, taken + needed)

    def _can_start(self, study: str, task: Task, now: float) -> bool:
        """Whether a slot that suits a task has room for it, and it is worth starting."""
        is_room = self._workers.has_room_for(self._state.kinds_for(task.goal))
        return is_room and self._is_in_time(study, task, now)

    def _first_that_can(self, study: str, now: float) -> Task | None:
        tasks, _ = self._frontier.ready(_MOST_LOOKS, study)
        return next((task for task in tasks if self._can_start(study, task, now)), None)

    def demand(self, most: int) -> Demand:
        """Return how many slots there is work for: running leases and ready tasks, at their widest.

        Proofs do not count: they take turns with training on the same slots.
        """
        proving = {worker for lease in self._leases.running() if lease.proof for worker in lease.workers}
        slots, together = self._workers.kinds_taken(proving), 1
        if not self._state.halted:
            running = self._leases.training()
            paths = [(lease.path[-1][0], lease.start, lease.goal, lease.width) for lease in running]
            paths += [(task.goal, task.start, task.end, WAITS) for task in self._frontier.ready(most)[0]]
            for goal, start, end, present in paths:
                widest = self._widest(goal, start, end, most)
                together = max(together, math.ceil(widest))
                slots[min(self._state.kinds_for(goal) or {0})] += max(math.ceil(widest - present), 0)
        left = most
        for kind in sorted(slots):
            slots[kind] = min(slots[kind], left)
            left -= slots[kind]
        return Demand(+slots, together)

    def _widest(self, goal: Node, start: int, end: int, slots: int) -> Fraction:
        """Return how wide a path may be if there are `slots` slots: at least 1."""
        allocator = self._state.allocator
        return (
            Fraction(1) if allocator is None else max(*allocator.ladder(goal, start, end, slots), Fraction(1))
        )

    def is_gathering(self) -> bool:
        """Whether nothing starts yet because widths are chosen once and slots are still to come."""
        state = self._state
        if not state.slots_awaited or state.allocator is None or state.allocator.policy.resizes:
            return False
        return self._workers.slots < sum(self.demand(state.slots_awaited).slots.values())

    # How wide.

    def allocate(self, allocator: WidthAllocator, claims: dict[Position, Fraction], now: float) -> Allocated:
        """Ask the policy for widths. The `claims` that are met here are taken out."""
        running = self._leases.training()
        proofs = [lease for lease in self._leases.running() if lease.proof]
        taken = sum(len(lease.workers) for lease in proofs) + self._state.reserved
        slots = max(self._workers.slots - taken, 1)
        tasks, beyond = self._frontier.ready(slots * allocator.policy.packing)
        tasks += self._soon({(task.node, task.start) for task in tasks})
        claimed = [claims.pop(source_of(task), WAITS) for task in tasks]
        values = [
            max((self._worth(lease.node_at(at), at) for at in lease.evaluations), default=-math.inf)
            for lease in running
        ]
        values += [self._worth(task.goal, task.end) for task in tasks]
        return allocator.allocate(running, tasks, slots, beyond, now, values, claimed)

    def _soon(self, ready: set[StartPoint]) -> list[Task]:
        """Return further tasks: those from states that are only in memory, or being saved."""
        states = {(self._state.plan[at.node], at.step): None for _, at in self._workers.states.unsaved()}
        for lease in self._leases.by_number.values():
            if lease.state == "saving":
                states.update(dict.fromkeys((lease.node_at(step), step) for step in sorted(lease.saves)))
        tasks = [task for state in states for task in self._frontier.tasks_from(*state)]
        tasks.sort(key=lambda task: -task.time)
        taken = ready | self._state.troubles.keys() | self._frontier.paused
        return [task for task in tasks if (task.node, task.start) not in taken]

    def _worth(self, node: Node, step: int) -> float:
        """Return the highest worth that any study gives to the requests at a step."""
        want = self._frontier.wants.get(node, {}).get(step)
        worths = self._state.worths
        known = () if want is None else [worths.get(number, -math.inf) for number in want.requests]
        return max(known, default=-math.inf)

    def width(self, choice: Choice, wish: Fraction, allocator: WidthAllocator) -> Fraction:
        """Return the greatest width that the free slots allow, within what was allocated; 0 if none."""
        task, worker = choice.task, choice.worker
        ladder = allocator.ladder(task.goal, task.start, task.end, self._workers.slots)
        most = max(wish, ladder[0])
        free = 0
        if worker is None or self._workers.has_whole(worker):
            free = self._workers.free_of(self._state.kinds_for(task.goal))
        free -= sum(int(lease.claim - lease.width) for lease in self._leases.running() if lease.claim)
        free -= self._state.reserved
        return max((step for step in ladder if step <= most and (step < 1 or step <= free)), default=WAITS)
