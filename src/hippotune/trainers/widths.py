"""How wide steps can be trained, going by their hyper-parameters alone."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

BATCH_SIZE = ("batch_size", "bs")


def splits_batch(values: Mapping[str, Any], width: int) -> bool:
    """Return whether the batch size, where it is a hyper-parameter, can be split evenly."""
    sizes = [values[name] for name in BATCH_SIZE if name in values]
    return all(isinstance(size, Real) and size % width == 0 for size in sizes)
