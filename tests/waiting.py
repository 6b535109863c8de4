"""Waiting for what other processes and threads do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

SECONDS = 300.0  # nothing takes so long unless it is broken

T = TypeVar("T")


def until(condition: Callable[[], T], between: Callable[[], object] = lambda: None, pause: float = 0.01) -> T:
    """Wait until something is so, and return it; call `between` after every look that it was not."""
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, f"it did not come to be within {SECONDS} s"
        between()
        time.sleep(pause)
    return found
