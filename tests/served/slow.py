"""A trainer that takes its time, so that things happen in the middle of it."""

from __future__ import annotations

import time

from study.walkers import Walker


class SlowWalker(Walker):
    """Waits a little in every step."""

    def train(self) -> None:
        time.sleep(self.settings.get("seconds", 0.05))
        super().train()


class HeavyWalker(SlowWalker):
    """Has checkpoints of more than a megabyte."""

    def build(self) -> None:
        super().build()
        self.load = bytearray(1 << 20)
