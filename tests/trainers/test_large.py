"""Large data that training never changes is named once, for its place is prepare(); all else is silent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hippotune import Config
from hippotune.trainers.base import Trainer
from hippotune.trainers.session import Session

CONFIG = Config({"rate": 0.5})
LARGE = 9 << 20


class Counting(Trainer):
    """Has a table of some size, which it may change at every step."""

    def build(self) -> None:
        self.table = np.zeros(self.settings["size"], dtype=np.uint8)

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.rate = hp["rate"]

    def train(self) -> None:
        self.table[0] += self.settings["change"]

    def evaluate(self) -> dict[str, float]:
        return {"loss": float(self.table[0])}


def said_by(size: int, change: int, trials: int, checkpoints: int) -> list[str]:
    """Return what is said while trials are trained, with a checkpoint after every step."""
    session = Session(Counting, {"size": size, "change": change}, 0)
    for _ in range(trials):
        session.start(CONFIG, 0, None, warm=False)
        for _ in range(checkpoints):
            session.advance()
            session.snapshot()
    return session.notes


def test_a_large_constant_is_named_once():
    (note,) = said_by(LARGE, change=0, trials=3, checkpoints=3)
    assert "table (9.4 MB) did not change between two checkpoints" in note
    assert "make it in prepare()" in note


def test_checkpoints_of_two_trials_are_not_compared():
    assert said_by(LARGE, change=0, trials=3, checkpoints=1) == []


def test_what_changes_or_is_small_is_not_named():
    assert said_by(LARGE, change=1, trials=2, checkpoints=3) == []
    assert said_by(1000, change=0, trials=2, checkpoints=3) == []
