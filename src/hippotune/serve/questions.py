"""What a server asks of a process that may open a trainer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hippotune.plan.facts import Checkpoint
from hippotune.sequences.config import Config


@dataclass(frozen=True)
class WhatIsIt:
    """What is the trainer, and with `fingerprinted`, what is its code?"""

    fingerprinted: bool


@dataclass(frozen=True)
class WriteExport:
    """Write the model in a checkpoint to a file, as `Best.export` does."""

    study: str
    config: Config
    step: int
    metrics: dict[str, float]
    checkpoints: Path
    storage: str | None
    checkpoint: Checkpoint
    target: Path


Question = WhatIsIt | WriteExport
