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

Where something changes, its place is noted, and the task there is found again when somebody asks for tasks.
So what is answered does not depend on when, or how often, somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from hippotune.gc_pause import gc_paused
from hippotune.plan.node import NOTHING, Node
from hippotune.stages.tasks import StartPoint, Task, TaskQueue


@dataclass(slots=True)
class Want:
    """Requests that wait for metrics at one step of a node, with their studies; how many each study has.

    `save` says that one of them may go on from there, so that the state is worth a checkpoint.
    """

    requests: dict[int, str] = field(default_factory=dict)
    studies: dict[str, int] = field(default_factory=dict)
    save: bool = False


# Something that is said of steps, by node.
Steps = Mapping[Node, Mapping[int, object]]


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
        self._queues: dict[str, TaskQueue] = {}
        self._changed: dict[StartPoint, None] = {}
        self._ready: dict[StartPoint, None] = {}
        self.paused: set[StartPoint] = set()

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
        self.changed(node, step)

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
        self.changed(node, step)
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
            self.changed(node, step)
        return False

    def live_branches(self, node: Node, step: int) -> list[Node]:
        """Return the nodes that leave `node` at `step` with anything wanted on or below them."""
        return list(self._live_below.get((node, step), ()))

    def wanted_below(self, node: Node) -> Set[str]:
        """Return the studies that want anything on a node or below it."""
        return self._live.get(node, NOTHING).keys()

    # Marks.

    def arrived(self, node: Node, step: int) -> None:
        """The state at `step` is kept: what waited for it can run."""
        self._changed.update(dict.fromkeys((start, step) for start in self._starts(node, step)))
        self.changed(node, step - 1)

    def unmarked(self, node: Node, step: int) -> None:
        """The state at `step` is not kept any more: what would start from it starts from the state before."""
        self._changed.update(dict.fromkeys((start, step) for start in self._starts(node, step)))
        self.changed(node, step)

    def paced(self, node: Node) -> None:
        """Steps along `node` take longer, or less long, than they were thought to."""
        self._changed.update(dict.fromkeys((node, step) for step in node.checkpoints))
        self.changed(node, node.start)

    def pause(self, place: StartPoint) -> None:
        """Let nothing start from a place until it is resumed."""
        self.paused.add(place)
        self._changed[place] = None

    def resume(self, place: StartPoint) -> None:
        """Let what waits start from a place again."""
        self.paused.discard(place)
        self._changed[place] = None

    def changed(self, node: Node, step: int) -> None:
        """What is wanted, promised or coming at `step` has changed, and so has the task that leads there."""
        while True:
            mark = self._last_mark(node, step)
            if mark is not None:
                (self._changed if mark in node.checkpoints else self._ready)[node, mark] = None
                return
            if self.is_kept(node, node.start):
                self._changed[node, node.start] = None
                return
            assert node.parent is not None
            node, step = node.parent, node.start

    def _starts(self, node: Node, step: int) -> Iterator[Node]:
        yield node
        yield from self.live_branches(node, step)

    def is_kept(self, node: Node, step: int) -> bool:
        """Whether work along `node` can start at `step` now."""
        if step > node.start:
            return step in node.checkpoints
        return node.parent is None or node.start in node.parent.checkpoints

    # Tasks.

    def best(self, study: str = "") -> Task | None:
        """Return a study's task with the longest reach, ties by age of the node; None if none can start."""
        queue = self._queue(study)
        return next(iter(queue.longest(1)), None)

    def take_ready(self) -> list[StartPoint]:
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

    def total_time(self, study: str) -> float:
        """Return how long all tasks of a study are together, in usual steps."""
        return self._queue(study).total_time

    def ready(self, limit: int, only: str | None = None) -> tuple[list[Task], float]:
        """Return the longest tasks that can start now, and about how long all others are together.

        With `only`, those of one study.
        """
        tasks: dict[StartPoint, Task] = {}
        total = 0.0
        for study in self.wanting if only is None else (only,):
            queue = self._queue(study)
            for task in queue.longest(limit):
                tasks.setdefault((task.node, task.start), task)
            total += queue.total_time
        found = sorted(tasks.values(), key=lambda task: (-task.time, task.node.id, task.start))[:limit]
        return found, max(total - sum(task.time for task in found), 0.0) if len(tasks) >= limit else 0.0

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
        return max(self.tasks_from(node, step), key=lambda task: task.time, default=None)

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

    def _queue(self, study: str) -> TaskQueue:
        """Return the tasks of a study, as they are now."""
        if self._changed:
            with gc_paused():
                self._find_changed()
        return self._queues.get(study) or TaskQueue()

    def _find_changed(self) -> None:
        for place in self._changed:
            can_start = place not in self.paused and self.is_kept(*place)
            wanted = self.wanted_below(place[0]) if can_start else ()
            for each in {*self._queues, *wanted}:
                task = self.task(*place, each) if each in wanted else None
                self._queues.setdefault(each, TaskQueue()).put(place, task)
        self._changed.clear()
        self._queues = {each: queue for each, queue in self._queues.items() if queue}

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
