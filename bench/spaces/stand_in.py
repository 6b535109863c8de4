"""A trainer in place of the networks of the paper: the files here are about trials, not about learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hippotune.trainers import Trainer


class StandIn(Trainer):
    """Learns nothing: adds up its learning rate. It keeps the contract, so that it can really be run."""

    def build(self) -> None:
        self.total = 0.0
        self.values: dict[str, Any] = {}

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.values.update(hp)

    def train(self) -> None:
        self.total += float(self.values["lr"])

    def evaluate(self) -> dict[str, float]:
        return {"accuracy": self.total / (1 + self.total)}
