"""A stage in trouble: what it has lost since its last checkpoint, and until when it is paused."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hippotune.protocol.failures import FailureKind, Retries

# This many machines lost in one stage are no coincidence.
_MOST_MACHINES = 3


@dataclass(slots=True)
class Trouble:
    """What a stage has lost since it last came to a checkpoint: how often by kind, and on which workers."""

    losses: Counter[FailureKind] = field(default_factory=Counter)
    workers: set[int] = field(default_factory=set)
    until: float = 0.0

    def is_used_up(self, retries: Retries) -> bool:
        """Whether there were more losses than are retried."""
        machines = self.losses["infrastructure"]
        return machines >= _MOST_MACHINES or self.losses.total() - machines > retries.times

    @property
    def patience(self) -> int:
        """How many times as long as usual a worker may be silent."""
        return 1 << min(self.losses["hung"], 10)
