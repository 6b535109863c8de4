"""Trainers that are not what they are alone, each for another reason, and one that is."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hippotune as hippo

count = 0


class Steps(hippo.Trainer):
    """Adds an amount in every step."""

    def build(self) -> None:
        self.value = 0.0
        self.steps = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp["lr"]

    def train(self) -> None:
        self.steps += 1
        self.value += self.lr * self.amount()

    def amount(self) -> float:
        return 1.0

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": self.value}


class InFolder(Steps):
    """Reads from a temporary folder of its process."""

    def prepare(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.place = self.folder.name
        Path(self.place, "amount").write_text("0.5")

    def amount(self) -> float:
        return float(Path(self.place, "amount").read_text())


class Unseeded(Steps):
    def amount(self) -> float:
        return float(np.random.default_rng().random())


class Buffer:
    """Keeps what it was given, but not when it is saved."""

    def __init__(self) -> None:
        self.items: list[float] = []

    def __getstate__(self) -> dict[str, list[float]]:
        return {"items": []}


class Late(Steps):
    def build(self) -> None:
        super().build()
        self.buffer = Buffer()

    def amount(self) -> float:
        self.buffer.items.append(self.lr)
        return len(self.buffer.items) if self.steps > 3 else 1.0


class Forgetful(Steps):
    """Its state_dict() leaves out what matters from the seventh step on."""

    def build(self) -> None:
        super().build()
        self.momentum = 0.0

    def amount(self) -> float:
        self.momentum = 0.9 * self.momentum + 1.0
        return self.momentum if self.steps > 6 else 1.0

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value, "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.value, self.steps = state["value"], state["steps"]


class Counting(Steps):
    def amount(self) -> float:
        global count
        count += 1
        return count


class Resetting(Steps):
    def build(self) -> None:
        super().build()
        self.losses: list[float] = []

    def amount(self) -> float:
        self.losses.append(self.value)
        return 1.0

    def evaluate(self) -> Mapping[str, float]:
        mean = sum(self.losses) / max(len(self.losses), 1)
        self.losses.clear()
        return {"loss": mean}


class Best(Steps):
    """Notes its best value when it is evaluated, and trains at another pace from 2 on. It begins late."""

    first = float("-inf")

    def build(self) -> None:
        super().build()
        self.best = self.first

    def amount(self) -> float:
        return 0.0 if self.steps <= 3 else 10.0 if self.best < 2 else 1.0

    def evaluate(self) -> Mapping[str, float]:
        self.best = max(self.best, self.value)
        return {"loss": self.value}


class BestOfZero(Best):
    first = 0.0


class Boosting(hippo.Trainer):
    """A tree in every step, of half of the rows."""

    def prepare(self) -> None:
        import xgboost

        rows = np.random.default_rng(5).normal(size=(64, 4))
        self.data = xgboost.DMatrix(rows, rows.sum(axis=1) ** 2)

    def build(self) -> None:
        import xgboost

        self.booster = xgboost.Booster({"subsample": 0.5, "seed": self.seed, "nthread": 1}, [self.data])
        self.trees = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.booster.set_param({"eta": hp["lr"]})

    def train(self) -> None:
        self.booster.update(self.data, self.trees)
        self.trees += 1

    def evaluate(self) -> Mapping[str, float]:
        error = self.booster.predict(self.data) - self.data.get_label()
        return {"loss": float(np.mean(error**2))}
