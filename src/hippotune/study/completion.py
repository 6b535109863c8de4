"""What a study makes of the configs that it is given, before they are placed in its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hippotune.sequences.base import Sequence
from hippotune.sequences.config import Config


@dataclass(frozen=True)
class Completion:
    """Gives values to what a config leaves unset, and looks at its sequences `substeps` times a step."""

    defaults: Mapping[str, Sequence] = field(default_factory=dict)
    substeps: int = 1

    def __call__(self, config: Config) -> Config:
        """Return the config as it is trained."""
        return config.completed(self.defaults).refined(self.substeps)


AS_GIVEN = Completion()
