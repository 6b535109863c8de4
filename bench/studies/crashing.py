"""A trainer whose process dies now and then, in one way or another, for `soak.py`."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hippotune as hippo

ODDS = 40
"""One step in this many is the last of its process."""


class Crashing(hippo.Trainer):
    """A random walk; what it comes to says nothing of how often its process died on the way.

    Every death is a character in the file that the settings name.
    """

    def build(self) -> None:
        self.weights = np.zeros(1000)

    def setup(self, hp: Mapping[str, Any]) -> None:
        if "lr" in hp:
            self.lr = hp["lr"]

    def train(self) -> None:
        for _ in range(50):
            self.weights = self.weights + self.lr * np.random.normal(size=1000)
        lot = int.from_bytes(os.urandom(4), "big") % (3 * ODDS)
        if lot < 3:
            with Path(self.settings["deaths"]).open("a") as deaths:
                deaths.write("x")
            if lot == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(lot)

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": float(np.abs(self.weights).mean())}
