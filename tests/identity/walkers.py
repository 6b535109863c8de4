"""A trainer that walks, by a global, its settings, and the threads that it is given."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hippotune import Trainer

SCALE = 1.0


def factor() -> float:
    return 1.0


class Walker(Trainer):
    def build(self) -> None:
        self.at = 0.0
        self.lr = 0.0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.lr = hp.get("lr", self.lr)

    def train(self) -> None:
        self.at += self.lr * SCALE * factor() + self.settings.get("bias", 0.0)

    def evaluate(self) -> Mapping[str, float]:
        return {"at": self.at, "threads": float(os.environ["OMP_NUM_THREADS"])}

    def save(self, path: Path) -> None:
        path.write_text(json.dumps([self.at, self.lr]))

    def load(self, path: Path) -> None:
        self.at, self.lr = json.loads(path.read_text())
