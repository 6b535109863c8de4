"""Which tests run in one process, and which first."""

from __future__ import annotations

import re

ON_RAY = re.compile(r"executors/test_ray|\[ray")

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
    """Return where a test's group comes: Ray's first, because no second process helps with them."""
    name = group(nodeid)
    return 0 if name == "on Ray" else 1 + (LONG.index(name) if name in LONG else len(LONG))
