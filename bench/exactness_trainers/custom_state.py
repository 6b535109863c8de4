"""Trainers that say themselves what their state is, by state_dict or by save and load."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from exactness_trainers.base import Plain
from exactness_trainers.torch_base import Toy


class _Custom(Plain):
    cause = "state_dict, save and load"

    def start(self) -> None:
        self.count = 0

    def amount(self) -> float:
        self.count += 1
        return self.count


class StateDict(_Custom):
    """state_dict and load_state_dict of plain values."""

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value, "count": self.count, "lr": self.lr}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.value, self.count, self.lr = state["value"], state["count"], state["lr"]


class StateDictForgets(StateDict):
    """state_dict leaves the counter out."""

    expect = "named"
    named = "count"

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value, "lr": self.lr}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.value, self.lr = state["value"], state["lr"]


class LoadStateDictForgets(StateDict):
    """load_state_dict does not put the counter back."""

    expect = "named"
    named = "count"

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.value, self.lr = state["value"], state["lr"]


class StateDictWithDraws(StateDict):
    """state_dict, and draws from the shared generators, which the engine keeps."""

    def amount(self) -> float:
        return super().amount() + random.gauss(0, 1)


class StateDictAlias(StateDict):
    """state_dict returns the live list, not a copy of it."""

    def start(self) -> None:
        super().start()
        self.history: list[int] = []

    def amount(self) -> float:
        self.history.append(self.count)
        return super().amount() + sum(self.history)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "history": self.history}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.history = state["history"]


class SaveLoad(_Custom):
    """save and load as JSON in a file."""

    def save(self, path: Path) -> None:
        path.write_text(json.dumps([self.value, self.count, self.lr]))

    def load(self, path: Path) -> None:
        self.value, self.count, self.lr = json.loads(path.read_text())


class SaveLoadFolder(_Custom):
    """save and load with a folder of files."""

    def save(self, path: Path) -> None:
        path.mkdir()
        (path / "value").write_text(repr(self.value))
        (path / "count").write_text(f"{self.count} {self.lr!r}")

    def load(self, path: Path) -> None:
        self.value = float((path / "value").read_text())
        count, lr = (path / "count").read_text().split()
        self.count, self.lr = int(count), float(lr)


class SaveLoadWithDraws(SaveLoad):
    """save and load, and draws from the shared generators, which the engine keeps."""

    def amount(self) -> float:
        return super().amount() + random.gauss(0, 1)


class SaveLoadForgets(SaveLoad):
    """save leaves the counter out."""

    expect = "named"
    named = "count"

    def save(self, path: Path) -> None:
        path.write_text(json.dumps([self.value, self.lr]))

    def load(self, path: Path) -> None:
        self.value, self.lr = json.loads(path.read_text())


class TorchStateDict(Toy):
    """state_dict of a model and an optimizer with momentum."""

    cause = "state_dict, save and load"

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


class TorchStateDictForgets(TorchStateDict):
    """state_dict of the model alone: the momentum is lost."""

    expect = "named"
    named = "optimizer"

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["model"])


class TorchSaveLoad(TorchStateDict):
    """save and load with torch.save, beside a state_dict that others call."""

    def save(self, path: Path) -> None:
        torch.save([self.state_dict(), self.x[0]], path)

    def load(self, path: Path) -> None:
        state, _ = torch.load(path, weights_only=True)
        self.load_state_dict(state)
