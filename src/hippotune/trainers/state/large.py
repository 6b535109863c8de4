"""Data that training never changes, but every checkpoint holds: it belongs into `prepare`."""

from __future__ import annotations

from typing import Any

import numpy as np

from hippotune import short
from hippotune.trainers.state import walk
from hippotune.trainers.state.prepared import Prepared, mark

_LARGE = 8 << 20


class LargeConstants:
    """Compares the first two checkpoints of a trial, and says once what is large and stayed the same.

    It looks until one trial has been compared, or had nothing large at its first checkpoint.
    """

    def __init__(self) -> None:
        self._first: dict[str, Any] | None = None
        self._is_over = False

    def begin(self) -> None:
        """Another trial begins."""
        self._first = None

    def look(self, trainer: Any, prepared: Prepared) -> str | None:
        """Look at a state that is being saved; return what is to be said, if anything."""
        if self._is_over:
            return None
        sizes: dict[str, int] = {}
        marks: dict[str, Any] = {}
        for path, value in walk.objects(trainer, reduced=False):
            size = _size(value)
            if size >= _LARGE and id(value) not in prepared.known.names:
                sizes[path], marks[path] = size, mark(value)
        first, self._first = self._first, marks
        self._is_over = first is not None or not marks
        if first is None:
            return None
        same = [path for path in marks if first.get(path) == marks[path]]
        if not same:
            return None
        listed = ", ".join(f"{path} ({short.size(sizes[path])})" for path in same[:3])
        others = f" and {len(same) - 3} others" if len(same) > 3 else ""
        return (
            f"{listed}{others} did not change between two checkpoints, and is saved in every one. If "
            "training never changes it, make it in prepare(): then it is saved as a reference only"
        )


def _size(value: Any) -> int:
    if walk.is_tensor(value):
        return int(value.untyped_storage().nbytes()) if str(value.layout) == "torch.strided" else 0
    return value.nbytes if isinstance(value, np.ndarray) else 0
