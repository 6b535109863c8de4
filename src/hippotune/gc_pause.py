"""The garbage collector, put off where a great many objects are made that all stay.

It looks through everything there is again and again while the number of objects grows, and finds nothing:
reading a large plan takes twice as long with it as without.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEVER = (1 << 31) - 1


@contextmanager
def gc_paused() -> Iterator[None]:
    """Keep the collector from running inside the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def gc_paused_for_imports() -> Iterator[None]:
    """Keep the collector from running while modules are imported; where one of them sets it up, that holds.

    Importing torch takes a third longer with it.
    """
    before = gc.get_threshold()
    gc.set_threshold(_NEVER, *before[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == _NEVER:
            gc.set_threshold(*before)
