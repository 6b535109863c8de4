"""What can happen to the engine. Small frozen values; the engine has a handler for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hippotune.plan.facts import Checkpoint, Position
from hippotune.plan.numbers import Columns
from hippotune.scheduling.policy import WidthPolicy
from hippotune.sequences.config import Config


@dataclass(frozen=True, slots=True)
class Request:
    """Train `config` for `step` steps and tell its metrics there, and at the steps in `reports`.

    `isolation_key` keeps trials apart that must not share (studies with ``share=False``). `keep` asks for the
    checkpoint at `step` as well: the request is answered when both are there, and the checkpoint stays,
    whatever the budget, until the request is withdrawn.
    """

    id: int
    study: str
    trial: int
    config: Config
    step: int
    reports: tuple[int, ...] = ()
    isolation_key: str = ""
    keep: bool = False


# From the tuners' side.


@dataclass(frozen=True, slots=True)
class GroupSubmitted:
    """A trial group: requests made together."""

    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class ConfigsForeseen:
    """Configs that may be asked for later, up to a step: where they part is worth a checkpoint."""

    configs: tuple[Config, ...]
    step: int


@dataclass(frozen=True, slots=True)
class RequestWithdrawn:
    """A request is not waited for any more."""

    request: int


@dataclass(frozen=True, slots=True)
class BestChanged:
    """The best results of a study so far: their checkpoints stay, whatever the budget."""

    study: str
    best: tuple[tuple[Config, int, str], ...]


@dataclass(frozen=True, slots=True)
class WorthChanged:
    """What a study thinks of its open requests, by their numbers: more is better."""

    worths: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class MetricsRequired:
    """From now on every evaluation must bring these metrics: a tuner reads them."""

    metrics: frozenset[str]


@dataclass(frozen=True, slots=True)
class WidthChanged:
    """From now on this policy chooses how wide leases are; without one, each has one slot."""

    policy: WidthPolicy | None


@dataclass(frozen=True, slots=True)
class DeadlineSet:
    """What a study does not hear before a moment, or before it has taken so many worker-seconds in all, it
    does not need. None takes that back.
    """

    study: str
    at: float | None = None
    worker_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CheckpointLost:
    """A checkpoint that was to be used is missing or damaged."""

    position: Position


@dataclass(frozen=True, slots=True)
class CheckpointDeleted:
    """The files of a checkpoint that was dropped take no room any more."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Paused:
    """Start nothing until `Resumed`: there is more to come that belongs to what is here already."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """All that was waited for is here."""


@dataclass(frozen=True, slots=True)
class Halted:
    """Start nothing more; running leases stop at the end of their step and save where they are."""


# From the executors' side.


@dataclass(frozen=True, slots=True)
class WorkerJoined:
    """A worker is up, holds no state and can take a lease. Where several share a slot, `slot` says which."""

    worker: int
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker is gone, with whatever it was at and had not saved.

    Those that trained a lease together with it are lost too; each is announced.
    """

    worker: int
    reason: str


@dataclass(frozen=True, slots=True)
class LeaseStarted:
    """The worker holds the state that the lease starts from. `seconds` is what loading it took."""

    lease: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Progressed:
    """The lease has trained up to `step`; `steps` of them since the last word, in `seconds`."""

    lease: int
    step: int
    steps: int
    seconds: float


@dataclass(frozen=True, slots=True)
class NumbersLogged:
    """What training logged: `numbers` has, by name, one for each of `steps`, or None where a step has none.

    Steps come in order. They come before, or together with, the word that the lease has trained them, and
    before what was measured or saved there.
    """

    lease: int
    steps: tuple[int, ...]
    numbers: Columns


@dataclass(frozen=True, slots=True)
class WorkerNoted:
    """A worker has something to say that a person should read, once."""

    worker: int
    text: str


@dataclass(frozen=True, slots=True)
class MetricsReported:
    """The metrics at `step`. `seconds` is what evaluating took."""

    lease: int
    step: int
    metrics: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """The state at `step` is durable. May come after the lease has finished."""

    lease: int
    step: int
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class SaveFailed:
    """The state at `step` could not be written; training is not affected."""

    lease: int
    step: int
    error: str
    disk_full: bool = False


@dataclass(frozen=True, slots=True)
class StepsMissed:
    """An update asked for evaluations or saves at steps that the worker has passed without doing them.

    What it did at those steps is not missed: a save that is under way, or an evaluation that was reported.
    """

    lease: int
    evaluations: frozenset[int]
    saves: frozenset[int]


@dataclass(frozen=True, slots=True)
class LeaseFinished:
    """The worker has trained to the lease's end, or stopped at `step` as told, and holds that state."""

    lease: int
    step: int


@dataclass(frozen=True, slots=True)
class LeaseFailed:
    """The user's code raised.

    `step` is the first step count that cannot be reached: raised while training from s to s+1, it is
    s+1; raised by evaluate() at s, it is s. `phase` "contract" means that no trial can work.
    """

    lease: int
    step: int
    error: str
    phase: Literal["prepare", "build", "setup", "train", "evaluate", "load", "contract"]
    checkpoint_unreadable: bool = False
    out_of_memory: bool = False


Event = (
    GroupSubmitted
    | ConfigsForeseen
    | RequestWithdrawn
    | BestChanged
    | WorthChanged
    | MetricsRequired
    | WidthChanged
    | DeadlineSet
    | CheckpointLost
    | CheckpointDeleted
    | Paused
    | Resumed
    | Halted
    | WorkerJoined
    | WorkerLost
    | LeaseStarted
    | Progressed
    | NumbersLogged
    | WorkerNoted
    | MetricsReported
    | CheckpointSaved
    | SaveFailed
    | StepsMissed
    | LeaseFinished
    | LeaseFailed
)
