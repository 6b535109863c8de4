"""What a lost worker means: its stage is tried again, alone on a slot, and suspended if that fails too often.

A worker that dies says nothing about the step that it died in. The loss is booked on the *stage* that it was
last heard in: the stretch from the last step with something to do at it. From then on

* the stage is paused for a while, longer after every loss,
* leases that come by end where it begins, and
* a lease that starts there ends where the stage ends, has its slot to itself, and starts from a checkpoint:
  no other work is lost with it.

So a trial that crashes its worker takes no other with it. When the retries are used up, or three machines
were lost, the stage is suspended. That is a fact of the plan until a user retries it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hippotune.engine.lease import Lease
from hippotune.engine.request_failures import RequestFailures
from hippotune.engine.state import State
from hippotune.engine.trouble import Trouble
from hippotune.plan.node import Node
from hippotune.protocol.commands import Note, Wake
from hippotune.protocol.events import Woken
from hippotune.protocol.failures import FailureKind
from hippotune.short import plural
from hippotune.stages.tasks import StartPoint


@dataclass(frozen=True, slots=True)
class LostStage:
    """The stage that a lease was lost in: where it begins, and the first step that was not reached.

    `is_alone` says that the lease had this one stage and its slot to itself.
    """

    place: StartPoint
    node: Node
    step: int
    is_alone: bool


@dataclass(eq=False, repr=False)
class Blame:
    """Books losses on stages, pauses these, and suspends them."""

    _state: State
    _failures: RequestFailures

    def stage_of(self, lease: Lease, at: int | None = None) -> LostStage | None:
        """Return the stage that a lease is in after `at` steps, or was last heard in; None at its end.

        Call it before the lease's promises are released: a step at which metrics or a checkpoint are missing
        may be where it is lost.
        """
        at = lease.at if at is None else at
        is_owed = at in lease.evaluations or at in lease.saves
        stops = {*lease.saves, *lease.settled, *(end for _, _, end in lease.path)}
        before = at if is_owed or at not in lease.settled else at + 1
        start = max((step for step in stops if lease.start < step < before), default=lease.start)
        if start >= lease.end > lease.start:
            return None
        place = lease.origin if start == lease.start else (lease.node_at(start + 1), start)
        step = min(at if is_owed else at + 1, lease.end)
        inside = {*lease.saves, *lease.settled, *lease.evaluations}
        is_alone = lease.alone and not any(lease.start < stop < lease.end for stop in inside)
        return LostStage(place, lease.node_at(step), step, is_alone and place == lease.origin)

    def lose(self, stage: LostStage | None, kind: FailureKind, reason: str, worker: int) -> None:
        """A lease was lost in a stage, or its state at the stage's end was. The lease must be released."""
        if stage is None:
            return
        state = self._state
        trouble = state.troubles.setdefault(stage.place, Trouble())
        trouble.losses[kind] += 1
        trouble.workers.add(worker)
        lines = reason.strip().splitlines() or [""]
        cause = lines[-1 if kind in ("transient", "out of memory") else 0]
        if stage.is_alone and kind == "out of memory" and trouble.losses[kind] > 1:
            self._forget(stage.place)
            self._failures.fail(stage.node, stage.step, reason)
        elif stage.is_alone and trouble.is_used_up(state.retries):
            self._forget(stage.place)
            times = plural(trouble.losses.total(), "time")
            lost = f"lost {times} before step {stage.step}, the last time with nothing else on its slot"
            state.commands.append(Note(f"{self._who_waits(stage)} is suspended: its worker was {lost}"))
            whole = reason if reason.startswith(cause) else f"{cause}\n{reason}"
            self._failures.fail(stage.node, stage.step, f"{lost}: {whole}", suspended=True)
        else:
            self._pause(stage, trouble, f"{kind}: {cause}")

    def _pause(self, stage: LostStage, trouble: Trouble, cause: str) -> None:
        state, losses = self._state, trouble.losses.total()
        pause = state.retries.pause_after(losses)
        trouble.until = state.now + pause
        state.frontier.pause(stage.place)
        state.commands.append(
            Note(
                f"the worker of {self._who_waits(stage)} was lost before step {stage.step} ({cause}): "
                f"retry {losses} in {pause:g} s"
            )
        )
        state.commands.append(Wake(trouble.until))

    def _who_waits(self, stage: LostStage) -> str:
        """Name a stage by a trial that waits for it."""
        frontier = self._state.frontier
        task = frontier.task(*stage.place)
        if task is None:  # none does any more
            return "a stage"
        request = self._state.requests[min(frontier.wants[task.goal][task.end].requests)].request
        return f"trial {request.trial} of study {request.study!r}"

    def woken(self, event: Woken) -> None:
        """Pauses that end by now are over."""
        for place, trouble in self._state.troubles.items():
            if trouble.until <= event.at:
                self._state.frontier.resume(place)

    def got_on(self, lease: Lease) -> None:
        """A lease has come to a checkpoint, or to its end: the stage that it started with is fine."""
        if lease.origin in self._state.troubles:
            self._forget(lease.origin)

    def _forget(self, place: StartPoint) -> None:
        del self._state.troubles[place]
        self._state.frontier.resume(place)

    # How leases go about stages in trouble.

    def isolate(self, lease: Lease) -> None:
        """End a lease before any stage in trouble; if it starts with one, end it where that stage ends."""
        state, first = self._state, self._first_stop(lease)
        ends = [step for node, step in state.troubles if _comes_by(lease, node, step)]
        if lease.origin in state.troubles:
            ends.append(first)
        last = min(ends, default=lease.end)
        if last < lease.end:
            lease.stopping, lease.end = True, last
            if last > lease.start and last not in lease.node_at(last).checkpoints:
                state.promises.saves.add(lease, last)
        lease.alone = lease.width == 1 and first >= lease.end

    def _first_stop(self, lease: Lease) -> int:
        """Return the first step with something to do at it, for this lease or another one."""
        node, start, end = lease.path[0]
        if start in lease.evaluations:
            return start
        live = self._state.frontier.live_branches
        branches = [step for step in node.branch_steps(start, end) if live(node, step)]
        stops = [step for step in (*lease.evaluations, *lease.saves, *branches) if step > start]
        return min([*stops, end, lease.end])


def _comes_by(lease: Lease, node: Node, step: int) -> bool:
    """Whether a lease trains on from a step of a node that it does not start from."""
    return step > lease.start and any(
        along is node and start <= step < end for along, start, end in lease.path
    )
