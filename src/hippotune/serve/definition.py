"""What a study is, as data: its code by name or digest, and what its plan goes by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from hippotune.engine.options import EngineOptions
from hippotune.errors import InvalidInput
from hippotune.executors.local.fork_server import Library
from hippotune.identity import parts
from hippotune.identity.key import PlanKey
from hippotune.identity.settings import canonical, decoded, encoded
from hippotune.protocol.failures import Retries
from hippotune.protocol.proof import ProofPolicy
from hippotune.scheduling.policy import WidthPolicy
from hippotune.serve.messages import ConfigJson, Name, Policy, Whole

if TYPE_CHECKING:
    from hippotune.study.study import Study

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Texts = tuple[str, ...]
# What a plan is found by: the server works it out, from what the code reads and not from how it travels.
_OF_PLANS = {"study", "code", "settings", "seed", "version", "data", "start", "substeps"}
# What a definition has in common with `hippo.Study`, as it is there.
_SAME = ("seed", "substeps", "share", "exact", "audit", "checkpoint_every", "checkpoint_budget")


class Code(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Where a trainer's class is found.

    `entry`, as ``package.module:Class``, is installed on the server, or is in the bundle with a digest; a
    class pickled by value is the file with that digest. `path` are folders that modules are searched in:
    below the bundle, or on a machine that both sides share. `libraries` are slow to import, and used by it.
    `process` are settings that workers must have because the client's process has them, where they are known.
    """

    kind: Literal["entry", "bundle", "value"]
    trainer: Name
    entry: Annotated[str, Meta(pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_][\w.]*)?$")] = ""
    digest: Digest | None = None
    by_value: Texts = ()
    path: Texts = ()
    arguments: Texts = ()
    libraries: tuple[Library, ...] = ()
    process: dict[str, str] | None = None


class Definition(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A study, as far as its plan goes by it; see `hippo.Study` for each of these.

    `settings` are encoded, and `trainer_settings` decodes them: JSON has no tuples, for one.
    """

    study: Name
    code: Code
    settings: dict[str, Any] = {}
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0
    version: str | None = None
    data: str | None = None
    start: str | None = None
    substeps: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    share: bool = True
    exact: bool = True
    audit: Annotated[float, Meta(ge=0, le=1)] = 0.01
    retries: Annotated[int, Meta(ge=0, le=1_000_000)] = 3
    retry_pause: Annotated[float, Meta(ge=0)] = 1.0
    checkpoint_every: Annotated[float, Meta(gt=0)] | None = 600
    checkpoint_budget: Whole | None = None
    width: Policy | None = None

    @classmethod
    def of(cls, study: Study, code: Code) -> Definition:
        """Write a study of this process down."""
        return cls(
            study=study.name,
            code=code,
            settings=_written(study.settings),
            version=study._version,
            data=_there(study.data),
            start=_there(study.start),
            retries=study.retries.times,
            retry_pause=study.retries.pause,
            width=None if study.width is None else Policy.of(study.width),
            **{name: getattr(study, name) for name in _SAME},
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `hippo.Study` that make the same study again, but for its name and its trainer."""
        same = {name: getattr(self, name) for name in (*_SAME, "version", "data", "start")}
        own = {"settings": self.trainer_settings, "retries": self._retries, "width": self._width}
        return same | own

    @property
    def trainer_settings(self) -> dict[str, Any]:
        """What the trainer gets as its settings."""
        return decoded(self.settings)

    def engine_options(self, trainer: str) -> EngineOptions:
        """Return what the engine of the study's plan goes by, for a trainer of this name."""
        proofs = ProofPolicy(trainer, self.exact, self.audit)
        return EngineOptions(
            self._width, proofs, self._retries, self.checkpoint_every, self.checkpoint_budget
        )

    @property
    def _retries(self) -> Retries:
        return Retries(self.retries, self.retry_pause)

    @property
    def _width(self) -> WidthPolicy | None:
        return None if self.width is None else self.width.made()


class TunerSpec(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What tunes a study: a tuner pickled by value, as the file with a `digest`, or `described` as in TOML.

    `metric` and `mode` are what it is tuned for; `seconds` and `worker_seconds` are its limits, and
    `tuner` says what it is, by the names of its parts, to tell two of one name apart.
    """

    metric: Name
    mode: Literal["max", "min"]
    tuner: dict[str, str] = {}
    digest: Digest | None = None
    described: dict[str, Any] | None = None
    seconds: Annotated[float, Meta(gt=0)] | None = None
    worker_seconds: Annotated[float, Meta(gt=0)] | None = None
    defaults: ConfigJson = {}
    trunks: tuple[ConfigJson, ...] = ()
    keep_best: Whole = 3


class Submission(Struct, forbid_unknown_fields=True):
    """A study that is tuned on the server."""

    definition: Definition
    tuned: TunerSpec


class KeyParts(Struct, omit_defaults=True):
    """What a plan is found by; see `identity.key.PlanKey`."""

    trainer: str
    version: str
    settings: str
    seed: int
    data: str = ""
    threads: int | None = None

    @classmethod
    def of(cls, key: PlanKey) -> KeyParts:
        """Write a key."""
        return cls(key.trainer, key.version, key.settings, key.seed, key.data, key.threads)

    def made(self) -> PlanKey:
        """Read it."""
        return PlanKey(self.trainer, self.version, self.settings, self.seed, self.data, self.threads)


class PlanOpened(Struct):
    """A plan that is open. `notes` are shown with progress, `warnings` always."""

    key: str
    parts: KeyParts
    trainer: str
    workers: int
    notes: Texts = ()
    warnings: Texts = ()


def _written(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write settings down. What would be something else on the server is refused."""
    canonical(settings)
    written = {name: encoded(value) for name, value in settings.items()}
    for name, value in decoded(msgspec.json.decode(msgspec.json.encode(written))).items():
        if canonical({name: value}) != canonical({name: settings[name]}):
            raise InvalidInput(
                f"settings[{name!r}] is {settings[name]!r}, which a server would get as {value!r}; expected "
                "plain numbers, strings, booleans, None, and lists, tuples or dicts of them"
            )
    return written


def _there(given: str | Path | None) -> str | None:
    """Return a path or a URL as the server finds it."""
    return str(given.expanduser().absolute()) if isinstance(given, Path) else given


def differences(one: Submission, other: Submission) -> list[str]:
    """Say in which parts two submissions differ, beside what their plans are found by."""
    return parts.differences(_parts(one), _parts(other))


def _parts(submission: Submission) -> dict[str, str]:
    """Say what a submission is, by name. Equal tuners may be pickled differently: their parts count."""
    tuner = submission.tuned.tuner
    given = msgspec.structs.asdict(submission.definition) | msgspec.structs.asdict(submission.tuned)
    left_out = _OF_PLANS | ({"tuner", "digest", "described"} if tuner else set())
    said = {name: parts.of_value(name, repr(value)) for name, value in given.items() if name not in left_out}
    return said | {f"tuner.{name}": text for name, text in tuner.items()}
