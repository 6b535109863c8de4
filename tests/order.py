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


def group(nodeid: str) -> str:
    """Return what a test runs with: its file, or all tests on Ray, which then need one cluster at a time."""
    return "on Ray" if ON_RAY.search(nodeid) else nodeid.split("::", 1)[0]


def rank(nodeid: str) -> int:
    """Return where a test's group comes: Ray's first, because no second process helps with them."""
    name = group(nodeid)
    return 0 if name == "on Ray" else 1 + (LONG.index(name) if name in LONG else len(LONG))
