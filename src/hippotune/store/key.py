"""What makes a plan this plan: the training code, its settings and its seed.

Results may be taken from a plan only if training again would give them again. So a plan is found by
everything that decides them, apart from the configs; where any of it changes, another plan begins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hippotune.errors import InvalidInput
from hippotune.store.fingerprint import fingerprint


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
        The trainer's settings as JSON, with sorted keys.
    seed : int
        The study's seed.
    """

    trainer: str
    version: str
    settings: str
    seed: int

    @classmethod
    def of(
        cls,
        trainer: type,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        version: str | None = None,
    ) -> PlanKey:
        """Make the key of a trainer's plan; with `version`, edits of the code are up to the user."""
        made_of = f"source:{fingerprint(trainer)}" if version is None else f"version:{version}"
        return cls(trainer.__qualname__, made_of, _canonical(settings or {}), seed)

    @cached_property
    def digest(self) -> str:
        """A short name for the plan, the same on every machine."""
        whole = json.dumps([self.trainer, self.version, self.settings, self.seed])
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _canonical(settings: Mapping[str, Any]) -> str:
    """Return settings as JSON text that is the same for equal settings."""
    for name, value in settings.items():
        if not isinstance(name, str):
            raise InvalidInput(f"settings has the key {name!r}; expected names, as strings")
        try:
            json.dumps(value, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"settings[{name!r}] is {value!r}, which cannot be written as JSON ({error}); "
                "expected numbers, strings, booleans, None, and lists or dicts of them"
            ) from None
    return json.dumps(dict(settings), sort_keys=True, separators=(",", ":"))
