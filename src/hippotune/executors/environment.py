"""What must be the same around every worker, so that all workers compute the same."""

from __future__ import annotations

import os
from collections.abc import Mapping

# The order in which numbers are summed up may depend on the number of threads.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def usual_threads(given: Mapping[str, str], default: int) -> int:
    """Return how many threads a worker of a new plan gets: as the environment says, or else `default`."""
    for name in THREAD_VARIABLES:
        if (text := given.get(name, "").strip()).isdigit() and int(text) > 0:
            return int(text)
    return default


def shares_of_cores(workers: int) -> list[list[int]]:
    """Share the cores out, evenly; where there are more workers than cores, several are on one."""
    cores = (
        sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    size = max(1, len(cores) // workers)
    return [[cores[(worker * size + at) % len(cores)] for at in range(size)] for worker in range(workers)]


def alike(given: Mapping[str, str], threads: int) -> dict[str, str]:
    """Return the variables that all workers need alike."""
    # Sets of strings must not be gone through in another order in another worker.
    return {
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "PYTHONHASHSEED": given.get("PYTHONHASHSEED", "0"),
    }
