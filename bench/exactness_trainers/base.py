"""What trainers without torch have in common: one number, pushed by what the state says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import hippotune as hippo


class Plain(hippo.Trainer):
    """A running value. Subclasses push it by an amount that depends on their state."""

    expect: ClassVar[str] = "exact"
    cause: ClassVar[str] = ""
    named: ClassVar[str] = ""
    found: ClassVar[str] = ""

    def build(self) -> None:
        self.value = 0.0
        self.start()

    def start(self) -> None:
        """Make the rest of the state."""

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp["lr"]

    def train(self) -> None:
        self.value = 0.9 * self.value + self.lr * self.amount()

    def amount(self) -> float:
        """Change the state, and return what it says."""
        raise NotImplementedError

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": float(self.value)}
