"""Garbage collection that does not stop requests: what lasts is looked through when the server is quiet."""

from __future__ import annotations

import gc
import threading
import time

_LOOK_SECONDS = 5.0
_QUIET_SHARE = 0.1
_LONGEST_SECONDS = 3600.0


def collect_when_quiet() -> None:
    """Leave young objects to the collector, and have a thread look through the others when there is time."""
    gc.collect()
    gc.freeze()  # what is there by now stays
    gc.set_threshold(*gc.get_threshold()[:2], 1_000_000_000)
    threading.Thread(target=_collect, name="garbage", daemon=True).start()


def _collect() -> None:
    collected, is_clean = time.monotonic(), True
    while True:
        used = time.process_time()
        time.sleep(_LOOK_SECONDS)
        is_quiet = time.process_time() - used < _QUIET_SHARE * _LOOK_SECONDS
        if (is_quiet and not is_clean) or time.monotonic() - collected > _LONGEST_SECONDS:
            gc.collect()
            collected = time.monotonic()
        is_clean = is_quiet
