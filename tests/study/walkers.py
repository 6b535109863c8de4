"""Small trainers for tests of whole studies: plain NumPy, with randomness from everywhere."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hippotune as hippo


class Walker(hippo.Trainer):
    """A random walk: every step draws from NumPy and from Python, so that one step too many shows."""

    def build(self) -> None:
        self.data = np.random.normal(size=8)
        self.weights = np.zeros(8)

    def setup(self, hp: Mapping[str, Any]) -> None:
        if "lr" in hp:
            self.lr = hp["lr"]
        if "bs" in hp:
            self.bs = hp["bs"]

    def train(self) -> None:
        noise = np.random.normal(size=8) + random.random()
        self.weights = self.weights * 0.9 + self.lr * (self.data - self.weights) + noise / self.bs
        self.log(norm=np.linalg.norm(self.weights), noise=noise[0])
        if self.bs > 16:
            self.log(large=self.bs)

    def evaluate(self) -> Mapping[str, float]:
        np.random.normal(size=3)  # evaluation may draw: it must change nothing
        return {"loss": float(np.sum(self.weights**2)), "first": float(self.weights[0])}


class Mortal(Walker):
    """Kills its own process at random moments, each of them once."""

    def train(self) -> None:
        super().train()
        folder = Path(self.settings["deaths"])
        mark = folder / f"{abs(self.weights[0]):.9f}"
        if int(abs(self.weights[0]) * 1e6) % 23 == 0 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class Fine(hippo.Trainer):
    """Adds up its learning rates, looked at four times a step."""

    def build(self) -> None:
        self.total = 0.0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp["lr"]

    def train(self) -> None:
        assert self.hp("lr") == self.lr
        self.total += sum(self.hp("lr", part) for part in range(4))

    def evaluate(self) -> Mapping[str, float]:
        return {"total": self.total}


class Steps(hippo.Trainer):
    """Counts, and fails where it is to count by 0."""

    def build(self) -> None:
        self.count = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.by = hp["by"]

    def train(self) -> None:
        self.count += self.by // (1 if self.by else 0)

    def evaluate(self) -> Mapping[str, float]:
        return {"count": self.count}
