"""What sessions say, as JSON: the messages of a tuner, and the items of the stream that answers them.

Numbers that JSON does not know (nan, inf) are written as text. Configs are written as `Config.to_json` does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from hippotune import errors
from hippotune.errors import HippoError, InvalidInput, NotExact
from hippotune.protocol.commands import Answer
from hippotune.scheduling.allocation import Allocation
from hippotune.scheduling.policy import Fluid, WidthPolicy

Number = float | str
Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
ConfigJson = dict[str, Any]
Name = Annotated[str, Meta(min_length=1, max_length=500)]


def number(value: float) -> Number:
    """Write a number."""
    return float(value) if math.isfinite(value) else repr(float(value))


def numbers(metrics: Mapping[str, float]) -> dict[str, Number]:
    """Write metrics."""
    return {name: number(value) for name, value in metrics.items()}


def read_numbers(metrics: Mapping[str, Number]) -> dict[str, float]:
    """Read metrics."""
    return {name: float(value) for name, value in metrics.items()}


# From a tuner.


class Ask(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A request; see `protocol.events.Request`. Its `id` is the client's own."""

    id: Whole
    trial: Whole
    config: ConfigJson
    step: Whole
    reports: tuple[Whole, ...] = ()
    isolation_key: str = ""
    keep: bool = False


class Submit(Struct, tag="submit", omit_defaults=True):
    """A trial group; with `repeated`, what has to be trained again for it is told."""

    requests: tuple[Ask, ...]
    repeated: bool = False


class Withdraw(Struct, tag="withdraw"):
    """The study no longer waits for a request."""

    request: Whole


class Rate(Struct, tag="rate"):
    """What open requests are worth."""

    worths: dict[Whole, Number]


class Rank(Struct, tag="rank"):
    """The best results of the study so far: config, step and isolation key."""

    best: tuple[tuple[ConfigJson, Whole, str], ...]


class Require(Struct, tag="require"):
    """Metrics that the tuner of the study reads."""

    metrics: tuple[str, ...]


class Foresee(Struct, tag="foresee"):
    """Configs that may be asked for later."""

    configs: tuple[ConfigJson, ...]
    step: Whole


class ForeseeBranches(Struct, tag="branches"):
    """Steps at which branches of a config are likely."""

    config: ConfigJson
    steps: Annotated[tuple[Whole, ...], Meta(min_length=1)]


class Limit(Struct, tag="limit", omit_defaults=True):
    """When the study ends: at a time of the server's clock, or when it has taken this much worker time."""

    at: float | None = None
    worker_seconds: float | None = None


class Policy(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A policy of Hippo's own: `hippo.Fluid`, or the one that `hippo.HyperSched` brings."""

    kind: Literal["fluid", "uniform", "top", "softmax"] = "fluid"
    packing: Annotated[int, Meta(ge=1, le=64)] = 1
    max_width: Annotated[int, Meta(ge=1, le=4096)] | None = None
    scaling: dict[float, float] = {}
    dynamic: bool = True

    @classmethod
    def of(cls, policy: WidthPolicy) -> Policy:
        """Write a policy; a user's own one is code, and does not travel."""
        shape = policy.packing, policy.max_width, dict(policy.scaling)
        if type(policy) is Fluid:
            return cls("fluid", *shape, policy.dynamic)
        if type(policy) is Allocation:
            return cls(policy.kind, *shape)
        raise InvalidInput(f"width is {policy!r}; expected hippo.Fluid(...), the one that a server takes")

    def made(self) -> WidthPolicy:
        """Read it."""
        if self.kind != "fluid":
            return Allocation(self.kind, self.max_width, self.scaling or None)
        return Fluid(self.packing, self.max_width, self.scaling or None, self.dynamic)


class Widen(Struct, tag="widen", omit_defaults=True):
    """The policy that the tuner works best with, from now on or, with None, no longer."""

    policy: Policy | None = None


class TuningBegan(Struct, tag="tune", omit_defaults=True):
    """A tuning begins: what the plan's log says of it."""

    metric: Name
    mode: Annotated[str, Meta(pattern="^(max|min)$")]
    definition: dict[str, Any] = {}


class TuningEnded(Struct, tag="tuned", omit_defaults=True):
    """The tuning has ended: how, and why."""

    outcome: Annotated[str, Meta(max_length=50)]
    text: str = ""


class TunerBegins(Struct, tag="begin"):
    """A tuner is at work: answers to it count when they are durable."""


class TunerEnds(Struct, tag="end"):
    """A tuner asks for nothing more."""


class FirstGroupSent(Struct, tag="begun"):
    """The study has asked for all that it asks for at first."""


class Prove(Struct, tag="prove"):
    """Say when nothing is provisional any more; without `audits`, the rehearsal is enough."""

    audits: bool


class RunDown(Struct, tag="run-down"):
    """Say when what still runs has ended, and what was counted."""


Message = (
    Submit
    | Withdraw
    | Rate
    | Rank
    | Require
    | Foresee
    | ForeseeBranches
    | Limit
    | Widen
    | TuningBegan
    | TuningEnded
    | TunerBegins
    | TunerEnds
    | FirstGroupSent
    | Prove
    | RunDown
)


class Messages(Struct, forbid_unknown_fields=True):
    """A batch: messages from number `first` on, and up to which item the stream was `heard`."""

    first: Whole
    messages: tuple[Message, ...]
    heard: Whole = 0


# To a tuner.


class ErrorBody(Struct, omit_defaults=True):
    """An error of the plan, for all its tuners."""

    kind: str
    text: str
    path: str | None = None
    step: int | None = None

    @classmethod
    def of(cls, error: BaseException) -> ErrorBody:
        """Write an error down."""
        known = next((kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__), None)
        path, step = (error.path, error.step) if isinstance(error, NotExact) else (None, None)
        return cls("HippoError" if known is None else known.__name__, str(error), path, step)

    def made(self) -> HippoError:
        """Return what to raise."""
        kind = getattr(errors, self.kind, HippoError)
        if kind is NotExact:
            return NotExact(self.text, self.path, self.step)
        known = isinstance(kind, type) and issubclass(kind, HippoError)
        return kind(self.text) if known else HippoError(self.text)


class Answered(Struct, tag="answer", omit_defaults=True):
    """An answer to a request; see `protocol.commands.Answer`."""

    request: int
    step: int
    order: int
    metrics: dict[str, Number] | None = None
    error: str | None = None
    final: bool = True
    suspended: bool = False

    @classmethod
    def of(cls, request: int, answer: Answer) -> Answered:
        """Write an answer, with the client's number of its request."""
        metrics = None if answer.metrics is None else numbers(answer.metrics)
        return cls(request, answer.step, answer.order, metrics, answer.error, answer.final, answer.suspended)

    def made(self) -> Answer:
        """Read it."""
        metrics = None if self.metrics is None else read_numbers(self.metrics)
        return Answer(self.request, self.step, self.order, metrics, self.error, self.final, self.suspended)


class Committed(Struct, tag="committed"):
    """Answers up to this place in the plan's history are durable."""

    order: int


class Done(Struct, tag="done"):
    """The messages before this number are handled, and what they were answered at once is told."""

    number: int


class Noted(Struct, tag="note"):
    """A text for a person."""

    text: str


class Broken(Struct, tag="broken"):
    """The plan cannot go on. With `waits`, it can when what is said was put right: the client tries again."""

    error: ErrorBody
    waits: bool = False


class Proved(Struct, tag="proved"):
    """Nothing is provisional any more; without `audits`, but for branches that are still to be audited."""

    audits: bool = True


class RanDown(Struct, tag="ran-down"):
    """Nothing runs any more, or others are at work; `proofs` are facts, as JSON, of what was proved."""

    counters: Counted
    proofs: tuple[str, ...] = ()


class Counted(Struct):
    """What was counted since the plan was opened; see `shell.readings.Counters`."""

    trained: int
    worker_seconds: float
    proof_steps: int
    proof_seconds: float
    proof_startup_seconds: float


Item = Answered | Committed | Done | Noted | Broken | Proved | RanDown


class WorkerLineBody(Struct, omit_defaults=True):
    """What one worker is at; see `view.WorkerLine`."""

    worker: int
    lease: int | None = None
    start: int = 0
    at: int = 0
    end: int = 0
    config: ConfigJson | None = None
    width: tuple[int, int] = (1, 1)
    leader: int | None = None


class PulseBody(Struct, omit_defaults=True):
    """How training goes, for one session; see `shell.pulse.Pulse`. It is sent and forgotten."""

    now: float
    workers: int
    step_seconds: float | None
    startup: float
    widest: int
    counters: Counted
    spent: float
    out_of: str | None
    slots: int
    lines: tuple[WorkerLineBody, ...]
    workers_expected: int
    running_seconds: float
    chain: float
    checkpoint_bytes: int
    is_proved: bool = True
    unique: int | None = None
    left: int | None = None


class SessionOpened(Struct):
    """A session: how far the plan is, and how it goes. `facts` is the number of its last fact."""

    committed: int
    beat: PulseBody
    incarnation: str
    facts: int


encode = msgspec.json.Encoder().encode
read_items = msgspec.json.Decoder(list[Item]).decode
