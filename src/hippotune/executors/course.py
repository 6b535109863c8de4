"""A lease on its way: what is still to do, what was done, and what is said when it fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hippotune.errors import CheckpointError, TrainerError
from hippotune.executors.tracebacks import describe
from hippotune.protocol.commands import RunLease, UpdateLease
from hippotune.protocol.events import LeaseFailed, StepsMissed
from hippotune.store.files import says_disk_full
from hippotune.trainers.memory import is_out_of_memory

Doing = Literal["find", "start", "probe", "train", "evaluate"]
Phase = Literal["build", "setup", "train", "evaluate", "load", "contract"]


@dataclass(slots=True)
class Course:
    """What a lease still has to do, and what it has done."""

    lease: RunLease
    end: int
    saves: frozenset[int]
    evaluations: frozenset[int]
    reached: int
    saved: set[int] = field(default_factory=set)
    evaluated: set[int] = field(default_factory=set)
    steps: int = 0
    seconds: float = 0.0
    doing: Doing = "find"
    over: bool = False

    @classmethod
    def of(cls, lease: RunLease) -> Course:
        """Return the course of a lease at its start."""
        return cls(lease, lease.end, lease.saves, lease.evaluations, reached=lease.start)

    @property
    def out_of_reach(self) -> int:
        """The first step count that cannot be reached if what is being done now goes wrong."""
        if self.doing == "train" or (self.doing in ("start", "probe") and self.reached == 0):
            return self.reached + 1
        return self.reached

    def update(self, update: UpdateLease) -> StepsMissed | None:
        """Take new orders; return what among them lies behind and was not done."""
        self.end, self.saves, self.evaluations = update.end, update.saves, update.evaluations
        last = max(self.end, self.reached)
        if last > self.lease.start:  # where a lease is made to stop, its work must not be lost
            self.saves |= {last}
        evaluations = frozenset(step for step in self.evaluations - self.evaluated if step < self.reached)
        saves = frozenset(step for step in self.saves - self.saved if step < self.reached)
        return StepsMissed(self.lease.lease, evaluations, saves) if evaluations or saves else None

    def failure(self, error: BaseException, phase: Phase) -> LeaseFailed:
        """Return what is to be said of an error that came up in a phase of the user's code."""
        unreadable = self.doing in ("find", "start") and isinstance(error, CheckpointError)
        if unreadable:
            phase = "load"
        elif isinstance(error, TrainerError) or self.doing == "probe" or says_disk_full(error):
            phase = "contract"  # also where a disk is full: that is no trial's fault
        return LeaseFailed(
            self.lease.lease, self.out_of_reach, describe(error), phase, unreadable, is_out_of_memory(error)
        )
