"""What tuners are written on: submit a trial group, wait for the next result or for all, withdraw.

A tuner is a coroutine over `Trials`. It knows nothing of workers, stages or storage, and keeps nothing on
disk: when a study is run again, recorded results come back in the order in which they first came, and a
tuner that decides by results alone makes the same decisions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from hippotune import checks
from hippotune.errors import TrainerError
from hippotune.scheduling.policy import WidthPolicy
from hippotune.sequences.config import Config, ConfigLike

Mode = Literal["max", "min"]


@dataclass(frozen=True, slots=True)
class Trial:
    """A config in training; `number` counts the trials of one tuning from 0.

    `family` is the number of the trial that its line of parents began with, where it has a parent.
    """

    number: int
    config: Config
    family: int | None = None


@dataclass(frozen=True, slots=True)
class Child:
    """A new trial that goes on from where another one stands: its config agrees with it up to there.

    Where trials share, every trial does so by itself; as a child it does even where they do not.
    """

    config: Config
    parent: Trial


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a trial at a step. `metrics` is None where the trial failed; `error` then says why.

    `final` is True at the step that was asked for, and for failures; False at reports along the way. A trial
    that is `suspended` was lost with its workers: to this run of the tuner it has failed; after
    ``hippo retry`` the study, run again, takes it up.
    """

    trial: Trial
    step: int
    metrics: Mapping[str, float] | None
    error: str | None = None
    final: bool = True
    suspended: bool = False

    @property
    def failed(self) -> bool:
        """Whether the trial failed, or is suspended."""
        return self.metrics is None

    def score(self, metric: str, mode: Mode) -> float:
        """Return the metric as a number of which more is better; failures are the worst."""
        if self.metrics is None:
            return -math.inf
        if metric not in self.metrics:
            known = ", ".join(map(repr, self.metrics)) or "nothing"
            raise TrainerError(f"evaluate() does not return {metric!r}; the results hold {known}")
        return as_score(self.metrics[metric], mode)


def as_score(value: float, mode: Mode) -> float:
    """Return a metric as a number of which more is better; what is not finite has diverged: the worst."""
    if not math.isfinite(value):
        return -math.inf
    return value if mode == "max" else -value


@dataclass(frozen=True, slots=True)
class TrialGroup:
    """Trials to be trained together, each up to its own step.

    `asks` pairs a config or a child (a new trial) or a trial (going on) with a step count. With `every=k`,
    metrics are reported at each multiple of k on the way too.
    """

    asks: tuple[tuple[ConfigLike | Child | Trial, int], ...]
    every: int | None = None

    @classmethod
    def of(
        cls, items: Iterable[ConfigLike | Child | Trial], step: int, every: int | None = None
    ) -> TrialGroup:
        """Make a group in which all go to the same step."""
        return cls(tuple((item, step) for item in items), every)


@dataclass(frozen=True, slots=True)
class Timing:
    """What the clock says: the time, what is left of it, and what training takes.

    `left` are seconds to the deadline, infinite where there is none. `step` are the seconds that a usual step
    takes on one worker, `startup` those that it takes to start from a checkpoint, as far as known. `widest`
    is how many workers one trial can be trained by.
    """

    now: float
    left: float = math.inf
    step: float | None = None
    startup: float = 0.0
    widest: int = 1


class Trials(Protocol):
    """One tuner's view of a study."""

    def foresee(self, configs: Iterable[Config], step: int) -> None:
        """Say which configs may be asked for later, so that checkpoints are kept where they part."""

    def submit(self, group: TrialGroup) -> list[Trial]:
        """Ask for a group; returns at once with its trials, in the group's order."""

    async def next(self) -> Result:
        """Wait for the next result of any open trial. Raises `LookupError` where nothing is open."""

    async def all(self, trials: Iterable[Trial]) -> list[Result]:
        """Wait for the final results of these open trials, in their order; others are kept for `next`."""

    def withdraw(self, trial: Trial) -> None:
        """Give up what is still open of a trial; nothing more is heard of it."""

    def timing(self) -> Timing:
        """Return the time. A tuner that uses it may decide differently when run again."""

    def unshared(self, config: Config, step: int) -> int:
        """Return how many steps a new config would have to be trained to get to `step`, as things are now."""

    def is_under_way(self, who: Config | Trial, step: int) -> bool:
        """Whether an open trial waits for the very state that a new config, or a trial, comes to at `step`.

        It takes no worker to ask for it too.
        """

    def state(self, trial: Trial, step: int) -> Hashable:
        """Return what a trial's state at a step is known by: the same for trials that have not parted yet.

        None where it was never requested.
        """

    def defer(self, trials: Iterable[Trial]) -> None:
        """Say which trials were set aside while others of the same state went on: they were not beaten."""

    def tell(self, text: str) -> None:
        """Let the user read something."""

    def rate(self, worths: Mapping[Trial, float]) -> None:
        """Say what open trials are worth, more being better: where workers are left over, they get them."""

    @property
    def open(self) -> int:
        """The number of trials whose final result the tuner has not been given yet by `next` or `all`.

        It counts what was heard, not what has arrived, so that a tuner that uses it decides as it did when
        recorded results come back all at once.
        """

    @property
    def under_way(self) -> int:
        """How many different states the open trials wait for: trials that agree so far wait for one.

        Like `open`, it counts what was heard. An asynchronous tuner compares it with `workers`.
        """

    @property
    def workers(self) -> int:
        """How many workers the study has: what an asynchronous tuner keeps busy."""


class Tuner(ABC):
    """Decides which trials to train how far.

    Contract: `run` returns when there is nothing more to ask; it survives failed trials and NaN; it draws
    random numbers only from a generator made inside `run` from its own seed, so that running it again
    gives the same decisions; and one tuner object may be run any number of times.
    """

    metric: str
    mode: Mode
    width: WidthPolicy | None = None
    """The policy that the tuner works best with; used where the study has none."""

    @abstractmethod
    async def run(self, trials: Trials) -> None:
        """Tune."""


def check_mode(mode: str) -> Mode:
    """Return `mode` if it is one."""
    known: tuple[Mode, ...] = get_args(Mode)
    return checks.one_of("mode", mode, known)
