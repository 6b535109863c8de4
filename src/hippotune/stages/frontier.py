"""The face of the stage tree that can run now, kept up to date as the plan and the leases change.

Building the whole stage tree for every decision would walk all open requests. The frontier knows, for every
state that work can start from, how long the longest chain of missing training below it is, and has the
longest of all at hand. It is an index, not a memory: what it answers follows from the plan, the open
requests and the promises of leases alone (`rebuilt` makes it from them afresh, and tests hold the two equal).
Promises are not kept here: the frontier reads them from their owner.

Words used here:

* A *want* is a step count on a node at which a request waits for metrics. Where a lease has *promised* to
  evaluate, there is nothing to start for it.
* A *mark* is a step count on a node whose state is kept in a checkpoint, or *coming*: promised by a lease.
* A *gap* is the stretch of a node from one mark (or its start) up to before the next. Wants in a gap, and
  branches that leave inside it, can only be served from the state at its beginning.
* A place that is *paused* is one that nothing starts from for now.
* A *task* is a gap whose first state is kept (or is step 0), with unpromised wants in it or below.

Several studies may want things of one plan; there is a longest task for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from hippotune.plan.node import NOTHING, Node


@dataclass(slots=True)
class Want:
    """Requests that wait for metrics at one step of a node, with their studies; how many each study has.

    `save` says that one of them may go on from there, so that the state is worth a checkpoint.
    """

    requests: dict[int, str] = field(default_factory=dict)
    studies: dict[str, int] = field(default_factory=dict)
    save: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """Work that can start now: from the state at `start` on `node` to the want that is furthest away.

    `reach` is the estimated time to get there, in usual steps.
    """

    node: Node
    start: int
    reach: float
    goal: Node
    end: int

    def path(self) -> Path:
        """Return the way from the start to the end: nodes, and the steps from which to which on each."""
        path: list[tuple[Node, int, int]] = []
        node, end = self.goal, self.end
        while node is not self.node:
            assert node.parent is not None
            path.append((node, node.start, end))
            node, end = node.parent, node.start
        path.append((node, self.start, end))
        return tuple(reversed(path))


Place = tuple[Node, int]
Path = tuple[tuple[Node, int, int], ...]
# Something that is said of steps, by node.
Steps = Mapping[Node, Mapping[int, object]]
Entry = tuple[float, int, int, int, Node]


class Frontier:
    """See the module's words. `promised` is where leases will evaluate, `coming` where they will save.

    `wanting` are the studies that want anything now. What is wanted along the nodes that are `touched`, or by
    whom, has changed; it is for the reader to clear them.
    """

    def __init__(self, promised: Steps, coming: Steps) -> None:
        self.wants: dict[Node, dict[int, Want]] = {}
        self._promised = promised
        self._coming = coming
        self.wanting: dict[str, int] = {}
        self.touched: dict[Node, None] = {}
        self._live: dict[Node, dict[str, int]] = {}
        self._live_below: dict[tuple[Node, int], dict[Node, None]] = {}
        self._queues: dict[str, list[Entry]] = {}
        self._reach: dict[str, float] = {}
        self._queued: dict[tuple[str, Node, int], float] = {}
        self._pushes = count()
        self._ready: dict[Place, None] = {}
        self.paused: set[Place] = set()

    # Wants.

    def ask(self, node: Node, step: int, request: int, save: bool = False, study: str = "") -> None:
        """A request of a study waits for metrics at `step` of `node`."""
        wants = self.wants.setdefault(node, {})
        want = wants.get(step)
        if want is None:
            want = wants[step] = Want()
        if request not in want.requests:
            want.studies[study] = want.studies.get(study, 0) + 1
            if want.studies[study] == 1:
                self._count(node, study, 1)
        want.requests[request] = study
        want.save |= save
        self._wake(node, step, study)

    def settle(self, node: Node, step: int) -> list[int]:
        """The want is over; return the requests that waited for it."""
        wants = self.wants.get(node)
        if wants is None or step not in wants:
            return []
        want = wants.pop(step)
        if not wants:
            del self.wants[node]
        for study in want.studies:
            self._count(node, study, -1)
        return list(want.requests)

    def withdraw(self, node: Node, step: int, request: int) -> bool:
        """A request no longer waits; return whether the want is over because no other does either."""
        want = self.wants.get(node, {}).get(step)
        if want is None or request not in want.requests:
            return False
        study = want.requests.pop(request)
        if not want.requests:
            self.settle(node, step)
            return True
        want.studies[study] -= 1
        if not want.studies[study]:
            del want.studies[study]
            self._count(node, study, -1)
        return False

    def reopened(self, node: Node, step: int) -> None:
        """No lease will evaluate at `step` any more: what is wanted there is to be started again."""
        want = self.wants.get(node, {}).get(step)
        if want is not None:
            for study in want.studies:
                self._wake(node, step, study)

    def live_branches(self, node: Node, step: int) -> list[Node]:
        """Return the nodes that leave `node` at `step` with anything wanted on or below them."""
        return list(self._live_below.get((node, step), ()))

    def wanted_below(self, node: Node) -> Set[str]:
        """Return the studies that want anything on a node or below it."""
        return self._live.get(node, NOTHING).keys()

    # Marks.

    def arrived(self, node: Node, step: int) -> None:
        """The state at `step` is kept: what waited for it can run."""
        for start in self._starts(node, step):
            for study in self._queues:
                if (task := self.task(start, step, study)) is not None:
                    self._push(study, start, step, task.reach)

    def unmarked(self, node: Node, step: int) -> None:
        """There is no state at `step` any more: what would start from it starts from the state before."""
        for start in self._starts(node, step):
            for study in self._queues:
                if (task := self.task(start, step, study)) is not None:
                    self._wake(node, step, study, task.reach)

    def paced(self, node: Node) -> None:
        """Steps along `node` take longer, or less long, than they were thought to."""
        for study in self._queues:
            if (task := self.task(node, node.start, study)) is not None:
                self._wake(node, node.start, study, task.reach)
            for step in node.checkpoints:
                if (task := self.task(node, step, study)) is not None:
                    self._push(study, node, step, task.reach)

    def pause(self, place: Place) -> None:
        """Let nothing start from a place until it is resumed."""
        self.paused.add(place)

    def resume(self, place: Place) -> None:
        """Let what waits start from a place again."""
        if place in self.paused:
            self.paused.discard(place)
            for study in self._queues:
                if self.is_kept(*place) and (task := self.task(*place, study)) is not None:
                    self._push(study, *place, task.reach)

    def _starts(self, node: Node, step: int) -> Iterator[Node]:
        yield node
        yield from self.live_branches(node, step)

    def is_kept(self, node: Node, step: int) -> bool:
        """Whether work along `node` can start at `step` now."""
        if step > node.start:
            return step in node.checkpoints
        return node.parent is None or node.start in node.parent.checkpoints

    # Tasks.

    def studies(self) -> list[str]:
        """Return the studies that anything was ever wanted for, in the order in which they came."""
        return list(self._queues)

    def best(self, study: str = "") -> Task | None:
        """Return a study's task with the longest reach, ties by age of the node; None if none can start."""
        queue = self._queues.get(study, [])
        while queue:
            negative, _, start, _, node = queue[0]
            if self._queued.get((study, node, start)) != -negative:
                heappop(queue)
                continue
            task = self.task(node, start, study)
            kept = self.is_kept(node, start)
            if task is not None and kept and task.reach == -negative and (node, start) not in self.paused:
                return task
            heappop(queue)
            self._reach[study] -= self._queued.pop((study, node, start))
            if (node, start) in self.paused:
                continue
            if task is not None and kept:
                self._push(study, node, start, task.reach)
            elif task is not None:
                self._wake(node, start, study, task.reach)
        return None

    def take_ready(self) -> list[Place]:
        """Return states, on their way to a checkpoint, that something waits for since the last call."""
        ready, self._ready = self._ready, {}
        return list(ready)

    def nearest(self, task: Task) -> float:
        """Return how long a task takes to the first metrics that it brings, in usual steps."""
        cost = 0.0
        for node, start, end in task.path():
            promised = self._promised.get(node, NOTHING)
            steps = [at for at in self.wants.get(node, ()) if start <= at <= end and at not in promised]
            if steps:
                return cost + (min(steps) - start) * node.pace
            cost += (end - start) * node.pace
        return cost

    def reach(self, study: str) -> float:
        """Return about how long all tasks of a study are together, in usual steps."""
        return self._reach.get(study, 0.0)

    def ready(self, limit: int, only: str | None = None) -> tuple[list[Task], float]:
        """Return the longest tasks that can start now, and about how long all others are together.

        With `only`, those of one study.
        """
        tasks: dict[Place, Task] = {}
        total = 0.0
        for study, queue in self._queues.items():
            if only is not None and study != only:
                continue
            seen: list[Entry] = []
            while len(seen) < limit and (task := self.best(study)) is not None:
                seen.append(heappop(queue))
                tasks.setdefault((task.node, task.start), task)
            for entry in seen:
                heappush(queue, entry)
            total += self._reach[study]
        longest = sorted(tasks.values(), key=lambda task: (-task.reach, task.node.id, task.start))
        found = longest[:limit]
        return found, max(total - sum(task.reach for task in found), 0.0) if len(tasks) >= limit else 0.0

    def task(self, node: Node, start: int, study: str | None = None) -> Task | None:
        """Return the way to the furthest unpromised want in the gap that begins at `start`, or below it.

        With a study, only what it wants counts.
        """
        best: tuple[float, int, Node, int] | None = None
        stack = [(node, start, 0.0)]
        while stack:
            along, begin, cost = stack.pop()
            end = self._next_mark(along, begin)
            promised = self._promised.get(along, NOTHING)
            for step, want in self.wants.get(along, NOTHING).items():
                if begin <= step and (end is None or step < end) and step not in promised:
                    if study is not None and study not in want.studies:
                        continue
                    found = (cost + (step - begin) * along.pace, -along.id, along, step)
                    if best is None or found[:2] > best[:2] or (found[:2] == best[:2] and step > best[3]):
                        best = found
            if along not in self._live:
                continue
            for branch in along.branch_steps(begin, None if end is None else end - 1):
                for child in self._live_below.get((along, branch), ()):
                    stack.append((child, branch, cost + (branch - begin) * along.pace))
        if best is None:
            return None
        return Task(node, start, best[0], best[2], best[3])

    def held(self, node: Node, step: int) -> Task | None:
        """Return the best task for a worker that holds the state at `step` of `node` in memory."""
        return max(self.tasks_from(node, step), key=lambda task: task.reach, default=None)

    def tasks_from(self, node: Node, step: int) -> list[Task]:
        """Return everything that can start as soon as the state at `step` of `node` can be had."""
        return [task for start in self._starts(node, step) if (task := self.task(start, step)) is not None]

    # Keeping the queue.

    def _count(self, node: Node, study: str, change: int) -> None:
        """A study wants something at one step more, or less, of a node."""
        self.touched[node] = None
        _add(self.wanting, study, change)
        for along in node.lineage():
            live = self._live.setdefault(along, {})
            _add(live, study, change)
            if not live:
                del self._live[along]
            if along.parent is not None:
                below = self._live_below.setdefault((along.parent, along.start), {})
                if live:
                    below[along] = None
                else:
                    below.pop(along, None)
                    if not below:
                        del self._live_below[along.parent, along.start]

    def _wake(self, node: Node, step: int, study: str, cost: float = 0.0) -> None:
        """Something is to be done `cost` after `step` of `node`: queue the task that it belongs to."""
        self._queues.setdefault(study, [])
        self._reach.setdefault(study, 0.0)
        while True:
            mark = self._last_mark(node, step)
            if mark is not None:
                if mark in node.checkpoints:
                    self._push(study, node, mark, cost + (step - mark) * node.pace)
                else:
                    self._ready[node, mark] = None
                return
            cost += (step - node.start) * node.pace
            if self.is_kept(node, node.start):
                self._push(study, node, node.start, cost)
                return
            assert node.parent is not None
            if node.start in self._coming.get(node.parent, ()):
                self._ready[node.parent, node.start] = None
                return
            node, step = node.parent, node.start

    def _push(self, study: str, node: Node, start: int, reach: float) -> None:
        before = self._queued.get((study, node, start))
        if before is None or before < reach:
            self._reach[study] = self._reach.get(study, 0.0) + reach - (before or 0.0)
            self._queued[study, node, start] = reach
            heappush(self._queues[study], (-reach, node.id, start, next(self._pushes), node))

    def _next_mark(self, node: Node, after: int) -> int | None:
        marks = [step for step in node.checkpoints if step > after]
        marks += [step for step in self._coming.get(node, ()) if step > after]
        return min(marks, default=None)

    def _last_mark(self, node: Node, until: int) -> int | None:
        marks = [step for step in node.checkpoints if step <= until]
        marks += [step for step in self._coming.get(node, ()) if step <= until]
        return max(marks, default=None)

    def rebuilt(self) -> Frontier:
        """Return a frontier made afresh from the same wants and marks."""
        fresh = Frontier(self._promised, self._coming)
        fresh.paused = self.paused
        for node, wants in self.wants.items():
            for step, want in wants.items():
                for request, study in want.requests.items():
                    fresh.ask(node, step, request, want.save, study)
        return fresh


def _add(counts: dict[str, int], study: str, change: int) -> None:
    count = counts.get(study, 0) + change
    if count:
        counts[study] = count
    else:
        del counts[study]
