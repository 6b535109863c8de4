"""What can happen to the engine. Small frozen values; the engine has a handler for each.

Without slots: values with slots take twice as long to pickle, and most of these come from another process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hippotune.plan.facts import Action, Checkpoint, Position
from hippotune.plan.numbers import Columns
from hippotune.protocol.failures import ErrorKind, LossKind, Phase
from hippotune.protocol.fingerprint import Fingerprint
from hippotune.scheduling.policy import WidthPolicy
from hippotune.sequences.config import Config


@dataclass(frozen=True)
class Request:
    """Train `config` for `step` steps and report its metrics there, and at the steps in `reports`.

    `isolation_key` keeps trials apart that must not share (studies with ``share=False``). `keep` asks for the
    checkpoint at `step` as well: the request is answered when both are there, and the checkpoint stays, even
    above the budget, until the request is withdrawn.
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


@dataclass(frozen=True)
class GroupSubmitted:
    """A trial group: requests made together."""

    requests: tuple[Request, ...]


@dataclass(frozen=True)
class ConfigsForeseen:
    """Configs that may be requested later, up to a step: checkpoints are worth keeping where they branch."""

    configs: tuple[Config, ...]
    step: int


@dataclass(frozen=True)
class BranchesForeseen:
    """Branches of a config are likely at these steps: each is worth a checkpoint."""

    config: Config
    steps: tuple[int, ...]


@dataclass(frozen=True)
class RequestWithdrawn:
    """The study no longer waits for a request."""

    request: int


@dataclass(frozen=True)
class BestChanged:
    """The best results of a study so far: their checkpoints stay, even above the budget."""

    study: str
    best: tuple[tuple[Config, int, str], ...]


@dataclass(frozen=True)
class WorthChanged:
    """How much a study values its open requests, by their ids: more is better."""

    worths: Mapping[int, float]


@dataclass(frozen=True)
class MetricsRequired:
    """A study's tuner reads these metrics: it ends where evaluate() returns one of them at no step."""

    metrics: frozenset[str]
    study: str = ""


@dataclass(frozen=True)
class StudyClosed:
    """A study is closed: what its tuner read, and which results are its best, is forgotten."""

    study: str


@dataclass(frozen=True)
class WidthChanged:
    """From now on this policy chooses how wide leases are; without one, each has one slot."""

    policy: WidthPolicy | None


@dataclass(frozen=True)
class SlotsAwaited:
    """Train nothing before there are this many slots, or as many as can be used: widths are chosen only once.

    With 0, nothing waits for slots any longer.
    """

    slots: int


@dataclass(frozen=True)
class DeadlineSet:
    """The study ends at this time, or once it has used this much worker time. None removes the limit."""

    study: str
    at: float | None = None
    worker_seconds: float | None = None


@dataclass(frozen=True)
class OwnerSet:
    """A study belongs to a user: slots are shared out fairly between users, then between their studies."""

    study: str
    owner: str


@dataclass(frozen=True)
class OthersWait:
    """Other plans wait for slots: this plan may keep `slots` of its own; with None, all of them.

    Idle slots are released. Leases that have to end for that end where their stage ends, or after a while.
    """

    slots: int | None


@dataclass(frozen=True)
class ServedElsewhere:
    """How much other plans served each user, in slot-seconds, beyond what this plan charged."""

    users: Mapping[str, float]


@dataclass(frozen=True)
class CheckpointLost:
    """A checkpoint that was about to be loaded is missing or damaged."""

    position: Position


@dataclass(frozen=True)
class CheckpointDeleted:
    """The files of a dropped checkpoint are deleted."""

    checkpoint: Checkpoint


@dataclass(frozen=True)
class ActionTaken:
    """A study began or ended, or a person stopped, pinned or retried something: the plan is to know it."""

    action: Action


@dataclass(frozen=True)
class Paused:
    """Start nothing until `Resumed`: more requests of the same group are on their way."""


@dataclass(frozen=True)
class Resumed:
    """All requests of the group are here."""


@dataclass(frozen=True)
class Woken:
    """The time has come that a `Wake` named."""

    at: float


@dataclass(frozen=True)
class Halted:
    """Start nothing more; running leases stop at the end of their step and save where they are."""


# From the executors' side.


@dataclass(frozen=True)
class WorkerJoined:
    """A worker is up, holds no state and can take a lease. Where several share a slot, `slot` says which.

    Workers whose `platform` is the same come to the same bits, and those with the same `host` are near each
    other. Slots may be of several kinds, by their numbers.
    """

    worker: int
    slot: int | None = None
    platform: str = ""
    host: str = ""
    kind: int = 0


@dataclass(frozen=True)
class WorkerLeaving:
    """A worker is to go: its machine is drained, or it is not needed. It takes no more work.

    What it runs stops at the end of its step and is saved, to go on elsewhere. `ReleaseWorker` answers.
    """

    worker: int


@dataclass(frozen=True)
class WorkerLost:
    """A worker is gone, with all that it had not saved.

    Those that trained a lease together with it are lost too; each is announced. `kind` is what is known of
    the cause.
    """

    worker: int
    reason: str
    kind: LossKind = "died"


@dataclass(frozen=True)
class LeaseStarted:
    """The worker holds the state that the lease starts from. `seconds` is what loading it took."""

    lease: int
    seconds: float


@dataclass(frozen=True)
class Progressed:
    """The lease has trained up to `step`; `steps` of them since the last report, in `seconds`."""

    lease: int
    step: int
    steps: int
    seconds: float


@dataclass(frozen=True)
class NumbersLogged:
    """What training logged: `numbers` has, by name, one for each of `steps`, or None where a step has none.

    Steps come in order. They arrive before, or together with, the lease's progress to those
    steps, and before metrics and checkpoints at them.
    """

    lease: int
    steps: tuple[int, ...]
    numbers: Columns


@dataclass(frozen=True)
class WorkerNoted:
    """A worker's message to the user; shown once."""

    worker: int
    text: str


@dataclass(frozen=True)
class MetricsReported:
    """The metrics at `step`. `seconds` is what evaluating took.

    In virtual time there may be none at a step with a fingerprint: for a proof that is enough.
    """

    lease: int
    step: int
    metrics: Mapping[str, float]
    seconds: float


@dataclass(frozen=True)
class StateFingerprinted:
    """What the state at `step` is; `evaluated` says whether evaluate() has run there since it was trained.

    `seconds` is what taking it took.
    """

    lease: int
    step: int
    fingerprint: Fingerprint
    evaluated: bool
    seconds: float


@dataclass(frozen=True)
class CheckpointSaved:
    """The state at `step` is durable. May come after the lease has finished.

    An interim checkpoint is not part of the orders; it comes before the lease ends, or at its last step.
    """

    lease: int
    step: int
    checkpoint: Checkpoint


@dataclass(frozen=True)
class SaveFailed:
    """The state at `step` could not be written; training is not affected. `kind` says why.

    Nothing waits for an `interim` checkpoint.
    """

    lease: int
    step: int
    error: str
    kind: ErrorKind = "raised"
    interim: bool = False


@dataclass(frozen=True)
class StepsMissed:
    """An update asked for evaluations or saves at steps that the worker has passed without doing them.

    A save that is under way and an evaluation that was reported are not missed.
    """

    lease: int
    evaluations: frozenset[int]
    saves: frozenset[int]


@dataclass(frozen=True)
class LeaseFinished:
    """The worker has trained to the lease's end, or stopped at `step` as ordered, and holds that state.

    `saving` is the lease and the step of a checkpoint that it is still writing.
    """

    lease: int
    step: int
    saving: tuple[int, int] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class LeaseFailed:
    """The user's code raised.

    `step` is the first step count that cannot be reached: raised while training from s to s+1, it is
    s+1; raised by evaluate() at s, it is s. `phase` "contract" means that no such trial can work; `missing`
    are metrics that evaluate() does not return. Where the `kind` of error may lie in the process, the workers
    that are `replaced` are lost next.
    """

    lease: int
    step: int
    error: str
    phase: Phase
    checkpoint_unreadable: bool = False
    kind: ErrorKind = "raised"
    replaced: tuple[int, ...] = ()
    missing: frozenset[str] = frozenset()


Event = (
    GroupSubmitted
    | ConfigsForeseen
    | BranchesForeseen
    | RequestWithdrawn
    | BestChanged
    | WorthChanged
    | MetricsRequired
    | StudyClosed
    | WidthChanged
    | SlotsAwaited
    | DeadlineSet
    | OwnerSet
    | OthersWait
    | ServedElsewhere
    | CheckpointLost
    | CheckpointDeleted
    | ActionTaken
    | Paused
    | Resumed
    | Woken
    | Halted
    | WorkerJoined
    | WorkerLeaving
    | WorkerLost
    | LeaseStarted
    | Progressed
    | NumbersLogged
    | WorkerNoted
    | MetricsReported
    | StateFingerprinted
    | CheckpointSaved
    | SaveFailed
    | StepsMissed
    | LeaseFinished
    | LeaseFailed
)
