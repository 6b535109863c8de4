"""Rungs: the step counts at which trials are compared, and their states in order of the scores there.

Trials that have not parted yet have one *state* and one score: they hold one place at a rung, so that no
comparison of scores tells them apart. Order is total: a higher score comes first, and of equal scores the
state with the lowest trial number. A state without a score (failed, or NaN) counts as the worst and never
goes on.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Literal

from hippotune.errors import InvalidInput
from hippotune.tuners.base import Trial, Trials

RungKind = Literal["states", "trials"]
StateOf = Callable[[Trial, int], Hashable]
"""What a trial's state at a step is known by."""


def rung_steps(min_steps: int, max_steps: int, reduction: int) -> list[int]:
    """Return min_steps, min_steps·reduction, … as long as they are below max_steps, and max_steps."""
    steps = []
    step = min_steps
    while step < max_steps:
        steps.append(step)
        step *= reduction
    return [*steps, max_steps]


def check_rungs(rungs: str) -> RungKind:
    """Return `rungs` if it says what is compared at rungs."""
    if rungs not in ("states", "trials"):
        raise InvalidInput(
            f"rungs is {rungs!r}; expected 'states' (trials that have not parted yet hold one place) or "
            "'trials' (each holds its own, as published)"
        )
    return rungs  # type: ignore[return-value]


def states_of(trials: Trials, rungs: RungKind) -> StateOf:
    """Return how states are told apart; where each trial has its own place, by their numbers."""
    if rungs == "trials":
        return lambda trial, step: trial.number

    def state_of(trial: Trial, step: int) -> Hashable:
        known = trials.state(trial, step)
        return trial.number if known is None else known

    return state_of


@dataclass(eq=False, slots=True)
class Standing:
    """A state's place at a rung: its score, and its trials by number. `sent` of them have gone on."""

    score: float
    trials: list[Trial] = field(default_factory=list)
    sent: set[int] = field(default_factory=set)

    @property
    def rank(self) -> tuple[float, int]:
        """What places are ordered by."""
        return -self.score, self.trials[0].number

    @property
    def left(self) -> list[Trial]:
        """The trials that have not gone on."""
        return [trial for trial in self.trials if trial.number not in self.sent]


class Rung:
    """The states that have a result at one rung, best first, and which of them wait there.

    Adding a trial and asking for the best state cost a binary search, so that rungs of 100,000 trials are
    cheap. `reported` counts the trials that have a result or failed, `scored` those that have a score, and
    `gone_on` those that went on.
    """

    def __init__(self) -> None:
        self.reported = 0
        self.scored = 0
        self.gone_on = 0
        self._places: dict[Hashable, Standing] = {}
        self._by_rank: dict[tuple[float, int], Standing] = {}
        self._ranked: list[tuple[float, int]] = []
        self._waiting: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._ranked)

    def add(self, trial: Trial, score: float, state: Hashable) -> Standing:
        """Note a trial's score, minus infinity for none; return the place of its state."""
        self.reported += 1
        self.scored += score > -math.inf
        place = self._places.get(state)
        if place is None:
            place = self._places[state] = Standing(score, [trial])
            self._enter(place, waits=score > -math.inf)
            return place
        waits = self._leave(place)
        insort(place.trials, trial, key=lambda each: each.number)
        self._enter(place, waits)
        return place

    def _enter(self, place: Standing, waits: bool) -> None:
        insort(self._ranked, place.rank)
        self._by_rank[place.rank] = place
        if waits:
            insort(self._waiting, place.rank)

    def _leave(self, place: Standing) -> bool:
        """Take a place out of the order; return whether it was waiting."""
        rank = place.rank
        del self._ranked[bisect_left(self._ranked, rank)], self._by_rank[rank]
        at = bisect_left(self._waiting, rank)
        waits = at < len(self._waiting) and self._waiting[at] == rank
        if waits:
            del self._waiting[at]
        return waits

    def best_waiting(self) -> Standing | None:
        """Return the best state of which no trial has gone on."""
        return self._by_rank[self._waiting[0]] if self._waiting else None

    def take_best(self) -> list[Trial]:
        """Send the best waiting state on, with all its trials."""
        best = self._by_rank[self._waiting[0]]
        self.send(best, best.trials)
        return best.trials

    def rank_of(self, place: Standing) -> int:
        """Return how many states are better."""
        return bisect_left(self._ranked, place.rank)

    def send(self, place: Standing, trials: list[Trial]) -> None:
        """Send trials of a state on."""
        if not place.sent:
            del self._waiting[bisect_left(self._waiting, place.rank)]
        self.gone_on += len(trials)
        place.sent |= {trial.number for trial in trials}

    def ranking(self) -> list[Trial]:
        """Return a trial of each state with a score, best first."""
        return [self._by_rank[rank].trials[0] for rank in self._ranked if rank[0] < math.inf]
