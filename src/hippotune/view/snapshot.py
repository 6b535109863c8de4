"""What a view shows of a study at one moment: plain values, taken on the engine's side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from hippotune.sequences.config import Config


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """What one worker is at. `lease` is None where it is idle; `config` is the path's.

    `width` is how many slots the lease has. Of several workers that train one together, `leader` is the one
    that leads; None on its own line.
    """

    worker: int
    lease: int | None = None
    start: int = 0
    at: int = 0
    end: int = 0
    config: Config | None = None
    width: Fraction = Fraction(1)
    leader: int | None = None


@dataclass(frozen=True, slots=True)
class BestLine:
    """The best result so far; provisional until training was proved to be exact."""

    trial: int
    step: int
    config: Config
    metrics: Mapping[str, float]
    is_proved: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment of a study.

    `steps_requested` counts every trial by itself, `steps_unique` each shared step once; `steps_found` of
    those were there before the tuning began. `seconds_left` is an estimate for what is asked so far; None
    where nothing is known yet. `utilisation` is which part of the workers' time was at work so far.
    `until_deadline` and `until_budget` are the seconds until the deadline, and those that the budget lasts at
    least; infinite where there is none.
    """

    study: str
    metric: str
    mode: str
    trials: int
    requests_open: int
    requests_answered: int
    requests_failed: int
    requests_suspended: int
    steps_requested: int
    steps_unique: int
    steps_trained: int
    steps_found: int
    workers: tuple[WorkerLine, ...]
    workers_expected: int
    best: BestLine | None
    seconds: float
    seconds_left: float | None
    checkpoint_bytes: int = 0
    utilisation: float = 0.0
    until_deadline: float = math.inf
    until_budget: float = math.inf

    @property
    def requests(self) -> int:
        """Requests that were made and not withdrawn."""
        return self.requests_open + self.requests_answered

    @property
    def steps_done(self) -> int:
        """How many of the unique steps need no more training."""
        return min(self.steps_found + self.steps_trained, self.steps_unique)

    @property
    def limits(self) -> dict[str, float]:
        """The limits that there are, with the seconds until each."""
        limits = {"deadline": self.until_deadline, "budget": self.until_budget}
        return {name: seconds for name, seconds in limits.items() if seconds < math.inf}

    @property
    def merge_rate(self) -> float:
        """Steps without sharing for every step with it."""
        return self.steps_requested / self.steps_unique if self.steps_unique else 1.0
