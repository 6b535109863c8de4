"""What must be the same around every worker, so that all workers compute the same."""

from __future__ import annotations

from collections.abc import Mapping

# The order in which numbers are summed up may depend on the number of threads.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def alike(given: Mapping[str, str], threads: int | None, default: int) -> dict[str, str]:
    """Return the variables that all workers need alike.

    Where `threads` says how many, that holds; else what was `given` in the environment, or else `default`.
    """
    alike = {name: given.get(name, str(default)) for name in THREAD_VARIABLES}
    if threads is not None:
        alike = dict.fromkeys(THREAD_VARIABLES, str(threads))
    # Sets of strings must not be gone through in another order in another worker.
    return {**alike, "PYTHONHASHSEED": given.get("PYTHONHASHSEED", "0")}
