"""Which tests run in one process, and which first."""

from __future__ import annotations

import re

ON_RAY = re.compile(r"executors/test_ray|\[ray")

# The files whose tests share a cluster. Where one has killed a node, the next that needs two starts another:
# those that need one come first.
RAY_FILES = (
    "test_faults.py",
    "test_ray.py",
    "test_ray_wide.py",
    "test_ray_guest.py",
    "test_ray_jobs.py",
    "test_ray_served.py",
    "test_ray_studies.py",
)

# Files that take a minute or more each start first, so that no process is left with one at the end.
LONG = (
    "tests/test_wheel.py",
    "tests/test_survival.py",
    "tests/docs/test_pages.py",
    "tests/served/test_what_happens_when.py",
    "tests/study/test_branching.py",
    "tests/executors/test_wide_local.py",
    "tests/test_stranger.py",
)


# Their workers are forked off processes that have imported torch: in one process, off the same ones.
ON_TORCH = (
    "tests/study/test_branching.py",
    "tests/study/test_exactness.py",
    "tests/feeds/test_served.py",
    "tests/trainers/test_documentation.py",
    "tests/test_exports.py",
)


def group(nodeid: str) -> str:
    """Return what a test runs with: its file, or others that need the same processes.

    All tests on Ray are one group, so that there is one cluster at a time.
    """
    if ON_RAY.search(nodeid):
        return "on Ray"
    file = nodeid.split("::", 1)[0]
    return ON_TORCH[0] if file in ON_TORCH else file


def rank(nodeid: str) -> int:
    """Return where a test's file comes: Ray's first, because no second process helps with them."""
    file = nodeid.split("::", 1)[0]
    if group(nodeid) == "on Ray":
        name = file.rpartition("/")[2]
        return 1 + RAY_FILES.index(name) if name in RAY_FILES else 0  # which have clusters of their own
    return 1 + len(RAY_FILES) + (LONG.index(file) if file in LONG else len(LONG))
