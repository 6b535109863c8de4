"""Functions that spaces of the tests refer to by name."""

from typing import Any


def small_batches(hp: dict[str, Any]) -> bool:
    return bool(hp["bs"] < 100)
