"""What requests bring and what they are answered, beside sessions: plain data, for both sides."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hippotune.serve.definition import KeyParts
from hippotune.serve.messages import ConfigJson, Name, Whole


class SessionStart(Struct, forbid_unknown_fields=True):
    """A tuner begins to work for a study; `metric` and `mode` are what it is tuned for, where it is."""

    study: Name
    metric: str | None = None
    mode: Annotated[str, Meta(pattern="^(max|min)$")] | None = None


class Accepted(Struct):
    """Messages before this number were taken."""

    expected: int


class PlanLine(Struct):
    """A plan that is open: who uses it, the steps trained since it was opened, and its open requests."""

    key: str
    trainer: str
    sessions: tuple[str, ...]
    workers: int
    trained: int
    requests: int


class ConfigStep(Struct, forbid_unknown_fields=True):
    """A config that may be trained to a step."""

    config: ConfigJson
    step: Whole


class Steps(Struct):
    """How many steps are to be trained."""

    steps: int


class FactLine(Struct):
    """A fact with its number; see `protocol.wire`."""

    number: int
    fact: msgspec.Raw


class FactPage(Struct):
    """Facts of a plan, and the number of the last that there is."""

    incarnation: str
    last: int
    facts: tuple[FactLine, ...]


class FactPageJson(Struct):
    """The same for the document: a fact is an object."""

    incarnation: str
    last: int
    facts: tuple[dict[str, Any], ...]


class WhichModel(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The state of a trial after some steps; `suffix` is that of a file that it is exported to."""

    config: ConfigJson
    step: Whole
    isolation_key: str = ""
    study: str = ""
    suffix: Annotated[str, Meta(pattern=r"^\.(pt|safetensors)$")] = ".pt"


class CatalogLine(Struct, omit_defaults=True):
    """A study of the store. Times are seconds since the epoch; `best` is its best result in words."""

    name: str
    key: KeyParts
    made: float
    used: float
    trials: int
    results: int
    bytes: int
    metric: str | None = None
    mode: str | None = None
    best: str = ""


class Retry(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What to try again: on the plan that is found by `plan` or used last, everything or one trial."""

    plan: str | None = None
    trial: Whole | None = None


class Retried(Struct):
    """How many trials are tried again when their study is next run."""

    trials: int


class NodeSteps(Struct, forbid_unknown_fields=True):
    """How far nodes of a plan are meant, by their numbers."""

    reaches: dict[Whole, Whole]


class Located(Struct):
    """Where a file is, on the server's machine."""

    path: str
