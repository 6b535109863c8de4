"""What makes a plan this plan: the training code with all that it reads, settings, data and seed.

Results may be taken from a plan only if training again would give them again. So a plan is found by
everything that decides them, apart from the configs; where any of it changes, another plan begins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hippotune.identity.effects import ModuleEffects
from hippotune.identity.fingerprint import Fingerprint, fingerprint
from hippotune.identity.parts import differences, of_value
from hippotune.identity.settings import canonical, encoded


@dataclass(frozen=True)
class PlanKey:
    """The identity of a plan.

    Attributes
    ----------
    trainer : str
        The name of the trainer's class.
    version : str
        ``source:…``, the fingerprint of the training code, or ``version:…`` where the user gave one.
    settings : str
        The trainer's settings as JSON, sorted by name; of dicts inside them the order counts.
    seed : int
        The study's seed.
    data : str
        The study's data by content, what its trials start from, and how finely schedules are looked at;
        empty where none was given.
    threads : int, optional
        The threads of a worker, where the user gave their number.
    """

    trainer: str
    version: str
    settings: str
    seed: int
    data: str = ""
    threads: int | None = None

    @cached_property
    def digest(self) -> str:
        """A short name for the plan, the same on every machine."""
        whole: list[object] = [self.trainer, self.version, self.settings, self.seed]
        if self.data or self.threads is not None:
            whole += [self.data, self.threads]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:16]


NO_CODE = Fingerprint("", {}, frozenset())


@dataclass(frozen=True)
class Identity:
    """A plan's key, with what it was made from.

    `parts` are short texts by name, for a person who wants to know why two plans differ; `code` are those of
    the training code. `imports` are the installed packages that it uses by itself, `modules` those of the
    user's that it is in.
    """

    key: PlanKey
    parts: Mapping[str, str]
    code: Mapping[str, str] = field(default_factory=dict)
    imports: Collection[str] = ()
    modules: Mapping[str, ModuleEffects] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        trainer: type,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        version: str | None = None,
        data: str = "",
        threads: int | None = None,
        start: str = "",
        substeps: int = 1,
    ) -> Identity:
        """Identify a trainer's plan, as everything is now; with `version`, the code is up to the user."""
        code = fingerprint(trainer) if version is None else NO_CODE
        return cls.made_of(
            trainer.__qualname__, code, settings, seed, version, data, threads, start, substeps
        )

    @classmethod
    def made_of(
        cls,
        trainer: str,
        code: Fingerprint,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        version: str | None = None,
        data: str = "",
        threads: int | None = None,
        start: str = "",
        substeps: int = 1,
    ) -> Identity:
        """Identify the plan of a trainer by its name and the fingerprint of its code."""
        made_of = f"source:{code.digest}" if version is None else f"version:{version}"
        named = {
            "version": version,
            "data": data or None,
            "start": start or None,
            "substeps": None if substeps == 1 else substeps,
            "threads": threads,
        }
        given = [data] + [f"{name} {named[name]}" for name in ("start", "substeps") if named[name]]
        whole = "; ".join(filter(None, given))
        key = PlanKey(trainer, made_of, canonical(settings or {}), seed, whole, threads)
        parts = {**code.parts, "seed": str(seed)}
        for name, value in (settings or {}).items():
            parts[f"settings[{name!r}]"] = of_value(name, json.dumps(encoded(value)))
        parts |= {name: of_value(name, str(value)) for name, value in named.items() if value is not None}
        return cls(key, parts, code.parts, code.imports, code.modules)

    def changes_to(self, later: Identity) -> list[str]:
        """Return what is different in another plan, for a person to read."""
        before, now = ({"trainer": each.key.trainer, **each.parts} for each in (self, later))
        return differences(before, now)

    def alone_in(self, study: str) -> Identity:
        """Return the identity of a plan in which a study's trials do not share: of no use to others."""
        return replace(self, key=replace(self.key, version=f"{self.key.version} alone in {study}"))


@dataclass(frozen=True)
class Origin:
    """What a plan was begun with: the parts of its identity, versions of libraries, threads of a worker."""

    parts: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None

    def changes_to(self, later: Origin) -> list[str]:
        """Return what is different in a later plan, for a person to read."""
        return differences({**self.parts, **self.versions}, {**later.parts, **later.versions})

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps(
            {"parts": dict(self.parts), "versions": dict(self.versions), "threads": self.threads}
        )

    @classmethod
    def from_json(cls, text: str) -> Origin:
        """Read what `to_json` has written."""
        found = json.loads(text)
        return cls(found["parts"], found["versions"], found["threads"])
