"""What is around a worker: the same for all, so that all compute the same, and its share of the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

# The order in which numbers are summed up may depend on the number of threads.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
_DEVICES = Path("/dev")


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


def shares_of_gpus(workers: int, given: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the variable that shows each worker a single GPU; workers take turns where there are fewer GPUs.

    They are the GPUs that the environment leaves visible, or else all whose devices can be opened. Without
    any, nothing is set. No library is asked: that could take hold of the GPUs.
    """
    if (visible := given.get(GPU_VARIABLE)) is None:
        gpus = [str(at) for at, _ in enumerate(filter(_opens, _DEVICES.glob("nvidia[0-9]*")))]
    else:  # CUDA reads no further than a number below zero
        gpus = list(takewhile(lambda name: name and name != "-1", map(str.strip, visible.split(","))))
    if not gpus:
        return [{}] * workers
    return [{GPU_VARIABLE: gpus[worker % len(gpus)]} for worker in range(workers)]


def _opens(device: Path) -> bool:
    """Whether a device may be used: batch systems and containers may refuse what the file's rights allow."""
    try:
        os.close(os.open(device, os.O_RDWR | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def alike(given: Mapping[str, str], threads: int) -> dict[str, str]:
    """Return the variables that all workers need alike."""
    # Sets of strings must not be gone through in another order in another worker.
    return {
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "PYTHONHASHSEED": given.get("PYTHONHASHSEED", "0"),
    }
