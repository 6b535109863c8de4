"""Which width each lease gets: the policy's wishes, fitted to the slots that are free.

Only leases that start can be given a width. One that runs is stopped to go on wider, where that pays for the
restart: at the end of the stage it is in, if that is near, because a checkpoint is due there anyway; or else
at the end of its step. Nothing is stopped to become narrower. Instead, a wide lease is given only a part of
its path at a time, up to where others branch off from it, or for as long as makes a restart negligible; then
its slots are shared out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from hippotune.engine.lease import Lease
from hippotune.plan.node import Node
from hippotune.scheduling.policy import Contender, WidthPolicy
from hippotune.scheduling.profile import Profile
from hippotune.scheduling.width import Capacity, Ladder, longest_first, spread
from hippotune.sequences.config import Config
from hippotune.stages.tasks import StartPoint, Task

Fits = Callable[[Mapping[str, Any], int], bool]

# What growing has to bring, in speed over the time that is left, restart included.
_GAIN = 1.1
# A stage's end is waited for if that takes at most this many restarts.
_NEAR = 4
# A wide lease goes on for this many restarts, or this part of its path, before widths are chosen anew.
_REVIEW = 20
_PARTS = 10
# How many values of a path are looked at. A batch that cannot be split is trained whole by every worker.
_LOOKS = 64


def growth_pays(slow: float, fast: float, left: float, restart: float) -> bool:
    """Whether going on faster pays for a restart, with `left` seconds left at the present speed."""
    return fast * (left - restart) > _GAIN * slow * left


@dataclass(frozen=True, slots=True)
class Allocated:
    """A policy's wishes, fitted to the slots.

    `widths` are those of tasks that could start, by where they start; 0 for one that has to wait. `stops` are
    leases that should stop, each with the step to stop at and the width to go on at.
    """

    widths: dict[StartPoint, Fraction] = field(default_factory=dict)
    stops: dict[Lease, tuple[int, Fraction]] = field(default_factory=dict)


class WidthAllocator:
    """A policy at work. `fits` says whether hyper-parameters' values allow a width above 1."""

    def __init__(self, policy: WidthPolicy, profile: Profile, fits: Fits | None) -> None:
        self.policy = policy
        self._profile = profile
        self._fits = fits
        self._unpacked: set[Node] = set()
        self._suitable = lru_cache(maxsize=1 << 16)(self._suits)

    def keep_apart(self, node: Node) -> None:
        """Pack no lease along a node any more: there was not enough memory for that."""
        self._unpacked.add(node)
        self._suitable.cache_clear()

    def keep_narrow(self) -> None:
        """Give nothing more than one slot any more."""
        self._fits = None
        self._suitable.cache_clear()

    def ladder(self, goal: Node, start: int, end: int, slots: int) -> Ladder:
        """Return the widths that a path to a goal can have: those that suit it, each faster than the last."""
        suitable = self._suitable(goal, start, end, slots)
        speeds = [self._profile.speed(step) for step in suitable]
        return tuple(
            step
            for place, step in enumerate(suitable)
            if step.numerator == 1 or speeds[place] > max(speeds[:place])
        )

    def _suits(self, goal: Node, start: int, end: int, slots: int) -> Ladder:
        steps = self.policy.steps(slots)
        if self._unpacked and not self._unpacked.isdisjoint(goal.lineage()):
            steps = tuple(step for step in steps if step >= 1)
        return tuple(
            step
            for step in steps
            if step <= 1 or (end > start and self._fits_all_the_way(goal.config, start, end, int(step)))
        )

    def widest(self, slots: int) -> int:
        """Return how many slots a lease may have, if its values suit that."""
        return 1 if self._fits is None else int(self.policy.steps(slots)[-1])

    def fastest(self, task: Task, slots: int) -> float:
        """Return how fast a task can be at best on `slots` slots."""
        widths = self.ladder(task.goal, task.start, task.end, slots)
        return max(self._profile.speed(step) for step in widths)

    def _ladder_of(self, lease: Lease, slots: int) -> Ladder:
        goal, _, end = lease.path[-1]
        return self.ladder(goal, lease.start, end, slots)

    def _fits_all_the_way(self, config: Config, start: int, end: int, width: int) -> bool:
        """Whether a width suits the values along a path; looks where sequences change their law."""
        if self._fits is None:
            return False
        step = start
        for _ in range(_LOOKS):
            if not self._fits(config.values(step), width):
                return False
            step = min((config[name].piece(step)[1] for name in config.names), default=end)
            if step >= end:
                break
        return True

    def allocate(
        self,
        running: Sequence[Lease],
        tasks: Sequence[Task],
        slots: int,
        beyond: float,
        now: float,
        worths: Sequence[float],
        claims: Sequence[Fraction],
    ) -> Allocated:
        """Say how wide what could start should be, and what should be stopped to go on at another width.

        `beyond` is the time of further paths that could start. `worths` are those of the
        leases, and then of the tasks. `claims` are widths that tasks were promised when they were stopped.
        """
        values = iter(worths)
        work = [
            Contender(
                self.time_left(lease, now),
                max(lease.width, lease.claim),
                self._ladder_of(lease, slots),
                next(values),
            )
            for lease in running
        ]
        work += [
            Contender(task.time, claim, self.ladder(task.goal, task.start, task.end, slots), next(values))
            for task, claim in zip(tasks, claims, strict=True)
        ]
        wishes = self.policy.widths(work, slots, self._profile.speed, beyond)
        growths = [self._growth(lease, each) for lease, each in zip(running, work, strict=False)]
        ladders = growths + [each.ladder for each in work[len(running) :]]
        given = self._given(work, wishes, ladders, slots)
        allocated = Allocated()
        for task, width in zip(tasks, given[len(running) :], strict=True):
            allocated.widths[task.node, task.start] = width
        for lease, each, width in zip(running, work, given, strict=False):
            if width > each.width:
                step = self._stop(lease, each)
                assert step is not None
                allocated.stops[lease] = (step, width)
        return allocated

    def _given(
        self, work: Sequence[Contender], wishes: Sequence[Fraction], ladders: Sequence[Ladder], slots: int
    ) -> list[Fraction]:
        """Fit wishes to the slots: the longest first, within what is free; what is left over is spread."""
        times = [each.time for each in work]
        given = [each.width for each in work]
        capacity = Capacity(slots, given)
        for index in longest_first(times):
            for step in reversed(ladders[index]):
                if given[index] < step <= wishes[index] and capacity.take(given[index], step):
                    given[index] = step
                    break
        return spread(times, given, slots, ladders, self._profile.speed)

    def _growth(self, lease: Lease, work: Contender) -> Ladder:
        """Return the widths above its own that would pay for a lease that runs."""
        if self._stop(lease, work) is None:
            return ()
        speed = self._profile.speed
        now, restart = speed(lease.width), self._profile.restart
        return tuple(
            step
            for step in work.ladder
            if step > lease.width and growth_pays(now, speed(step), work.time / now, restart)
        )

    def _stop(self, lease: Lease, work: Contender) -> int | None:
        """Return where a lease should stop to go on at another width: at its stage's end if that is near.

        None where that is not worth a restart, or already ordered.
        """
        if lease.claim or not self.policy.resizes or work.time <= self._least_time(lease):
            return None
        end = min((step for step in lease.saves if lease.at < step < lease.end), default=None)
        if end is not None and lease.cost(lease.at, end) <= _NEAR * self._profile.restart:
            return end
        return max(lease.at, lease.start + 1)  # every lease trains at least one step

    def steps_until_review(self, lease: Lease) -> int:
        """Return how many steps a wide lease may take before widths are chosen again."""
        length = lease.goal - lease.start
        pace = lease.cost(lease.start, lease.goal) / max(length, 1)
        return max(1, round(_REVIEW * self._profile.restart / pace), length // _PARTS)

    def _least_time(self, lease: Lease) -> float:
        """Return the time below which no restart pays."""
        return 2 * self._profile.restart * self._profile.speed(lease.width)

    def time_left(self, lease: Lease, now: float) -> float:
        """Return the usual steps that a lease still has to train, as on one slot."""
        return lease.time_left(self._profile, now, lease.goal) * self._profile.speed(lease.width)
