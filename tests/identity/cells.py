"""Trainers whose source is a text, as in the cells of a notebook."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

from hippotune.trainers.state.surroundings import WatchedGlobals

_numbers = itertools.count()


class Cell:
    """A cell that was run: its names, which a test may change."""

    def __init__(self, source: str, **names: Any) -> None:
        self.file = f"<cell {next(_numbers)}>"
        linecache.cache[self.file] = (len(source), None, source.splitlines(keepends=True), self.file)
        self.names: dict[str, Any] = {"__name__": "__main__", **names}
        exec(compile(source, self.file, "exec"), self.names)

    @property
    def trainer(self) -> type:
        found = self.names["Digits"]
        assert isinstance(found, type)
        return found


def trained(trainer: type[Any]) -> None:
    """Train one step, as a worker does that watches the globals."""
    digits = trainer()
    digits.build()
    watched = WatchedGlobals(trainer)
    digits.train()
    watched.check(urgent=True)
