"""What is around a worker: the same for all, so that all compute the same, and a share of the machine."""

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


def gpu_of(slot: int, given: Mapping[str, str]) -> dict[str, str]:
    """Return by what a process sees one GPU alone: each slot another, in turns where there are more slots.

    They are the GPUs that the environment leaves visible, or else all whose devices the system lets us open.
    Without any, nothing is returned. No library is asked: that could take hold of the GPUs.
    """
    if (visible := given.get(GPU_VARIABLE)) is None:
        nodes = _DEVICES.glob("nvidia[0-9]*")
        gpus = [str(at) for at, _ in enumerate(node for node in nodes if os.access(node, os.R_OK | os.W_OK))]
    else:  # CUDA reads no further than a number below zero
        gpus = list(takewhile(lambda name: name and name != "-1", map(str.strip, visible.split(","))))
    return {GPU_VARIABLE: gpus[slot % len(gpus)]} if gpus else {}


def alike(given: Mapping[str, str], threads: int) -> dict[str, str]:
    """Return the variables that all workers need alike."""
    # Sets of strings must not be gone through in another order in another worker.
    return {
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "PYTHONHASHSEED": given.get("PYTHONHASHSEED", "0"),
    }
