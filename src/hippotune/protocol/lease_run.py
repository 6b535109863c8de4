"""The course of a lease, from its `RunLease` to its `LeaseFinished` or `LeaseFailed`. No I/O, no clock.

    start ─▶ probe ─▶ at every step count: fingerprint ─▶ evaluate ─▶ fingerprint ─▶ save ─▶ train … finish
            (if asked)                    (each if due; the second fingerprint after an evaluation only)

A probe is an evaluation too: fingerprints are taken before and after it, where they are asked for.
The saved state is that of the last fingerprint. A lease is also saved on its way, `checkpoint_every` seconds
after its last save; later where saving is slow, so that training waits for at most a twentieth of the time.

Real workers, the simulator and the tests' world all drive this class: `next` says what to do, `done` that it
was done, and `update` takes new orders in between. They only carry the actions out, and say what time it is.
So what is simulated is what runs.
"""

from __future__ import annotations

import math
from typing import Literal

from hippotune.protocol.commands import RunLease, UpdateLease
from hippotune.protocol.events import StepsMissed

Action = Literal["start", "probe", "fingerprint", "evaluate", "save", "train", "finish"]

# How much longer training goes on after an interim save than it waited for the save: 5 % is 1 to 19.
_LEAST_TRAINING = 19


class LeaseRun:
    """A lease under way. `at` is the step count reached; `doing` what is being done there, if anything.

    `saved` and `evaluated` are the steps at which that was done, or will not be done any more;
    `fingerprinted` are the steps at which a fingerprint was taken, each with whether it was evaluated before.
    """

    def __init__(self, lease: RunLease) -> None:
        self.lease = lease
        self.at = lease.start
        self.end = lease.end
        self.saves = lease.saves
        self.evaluations = lease.evaluations
        self.fingerprints = lease.fingerprints
        self.fingerprinted: set[tuple[int, bool]] = set()
        self.saved: set[int] = set()
        self.evaluated: set[int] = set()
        self.doing: Action | None = None
        self.over = False
        self._to_come: list[Action] = ["start"]  # from behind
        if lease.probe:
            is_fingerprinted = lease.start in lease.fingerprints
            self._to_come = (
                ["fingerprint", "probe", "fingerprint", "start"] if is_fingerprinted else ["probe", "start"]
            )
        self._stops: list[int] | None = None
        self.checkpoint_every = lease.checkpoint_every
        self._since: float | None = None
        self._save_began: float | None = None
        self._cost = 0.0

    def next(self, now: float = 0.0, can_save: bool = True) -> Action:
        """Return what to do now, and begin it.

        `now` is the time by any clock that goes on. Nothing is saved on the way unless it `can_save` without
        waiting for the save before.
        """
        if self._save_began is not None:
            self._cost, self._save_began, self._since = now - self._save_began, None, None
        if self._to_come:
            action = self._to_come[-1]
        else:
            if self._since is None:
                self._since = now
            action = self._due(can_save and now >= self.interim_due)
        if action == "save":
            self._save_began = now
        self.doing = action
        return action

    @property
    def interim_due(self) -> float:
        """When this lease is to be saved on its way next, if it is not saved before."""
        if self.checkpoint_every is None or self._since is None:
            return math.inf
        return self._since + max(self.checkpoint_every, _LEAST_TRAINING * self._cost)

    @property
    def is_evaluated(self) -> bool:
        """Whether the state at the next fingerprint was evaluated before, or probed."""
        return self.at in self.evaluated or self._to_come == ["fingerprint"]

    @property
    def is_interim(self) -> bool:
        """Whether the save that is due is an interim one: it is not part of the orders."""
        return self.at not in self.saves

    def _due(self, is_interim_due: bool) -> Action:
        """Return what is due at this step count: the one place that decides where a lease saves and stops."""
        at, is_evaluated = self.at, self.at in self.evaluated
        is_due = at in self.fingerprints and (at, is_evaluated) not in self.fingerprinted
        if is_due and not is_evaluated:
            return "fingerprint"
        if at in self.evaluations and not is_evaluated:
            return "evaluate"
        if is_due:
            return "fingerprint"
        if at in self.saves and at not in self.saved:
            return "save"
        if at >= self.end:
            return "finish"
        return "save" if is_interim_due and at > self.lease.start and at not in self.saved else "train"

    def begin(self, action: Action) -> None:
        """Begin what another worker has decided: for the peers of a wide lease."""
        self.doing = action

    def done(self, steps: int = 1) -> None:
        """End what was begun. Training counts for `steps`, which may be fewer than meant, or none."""
        match self.doing:
            case "train":
                self.at += steps
            case "evaluate":
                self.evaluated.add(self.at)
            case "fingerprint":
                self.fingerprinted.add((self.at, self.is_evaluated))
            case "save":
                self.saved.add(self.at)
            case "finish":
                self.over = True
        if self._to_come:
            self._to_come.pop()
        self.doing = None

    def update(self, update: UpdateLease) -> StepsMissed | None:
        """Take new orders; return what among them comes too late, if anything does.

        Where an update makes a lease stop, it saves, so that its work is not lost. After the end of the lease
        only saves can be missed: metrics are asked for anew by those who need them.
        """
        if self.over:
            return self._refuse(update)
        first = self.at + (self.doing == "train")  # the step count to come, or the present one
        self.end = max(update.end, first)
        self.saves, self.evaluations, self.fingerprints = (
            update.saves,
            update.evaluations,
            update.fingerprints,
        )
        self.checkpoint_every = update.checkpoint_every
        if self.end > self.lease.start:
            self.saves |= {self.end}
        self._stops = None
        evaluations = frozenset(step for step in self.evaluations if step < first) - self.evaluated
        saves = frozenset(step for step in self.saves if step < first) - self.saved
        return StepsMissed(self.lease.lease, evaluations, saves) if evaluations or saves else None

    def _refuse(self, update: UpdateLease) -> StepsMissed | None:
        missed = frozenset(step for step in update.saves if step <= self.at) - self.saved
        self.saved |= missed  # answered once
        return StepsMissed(self.lease.lease, frozenset(), missed) if missed else None

    def next_stop(self) -> int:
        """Return the next step count after this one with something to do at it; its end at the latest."""
        if self._stops is None:
            self._stops = sorted(
                (at for at in self.saves | self.evaluations | self.fingerprints if at < self.end),
                reverse=True,
            )
        while self._stops and self._stops[-1] <= self.at:
            self._stops.pop()
        return self._stops[-1] if self._stops else self.end

    def fail(self, step: int | None = None) -> int:
        """End because of an error in what is being done; return the first step count that is out of reach.

        `step` is what a peer says of its own error; it may have failed where this worker did not.
        """
        if step is None:
            at_first = self.doing in ("start", "probe", "fingerprint") and self.at == 0
            step = self.at + 1 if self.doing == "train" or at_first else self.at
        elif step in self.evaluated:
            step += 1
        self.at, self.over, self.doing = step - 1, True, None
        return step
