from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

import order
from executors.ray_nodes import Nodes

pytest.register_assert_rewrite("executors.conformance", "executors.rig")

_open: list[Nodes] = []


@pytest.fixture(scope="module")
def cluster() -> Nodes:
    """A Ray cluster of two nodes, a slot on each, that this process is part of."""
    if not _open:
        _open.append(Nodes())
    return _open[0]


@pytest.fixture(scope="module")
def unhurried() -> Iterator[None]:
    """Let a busy machine place workers together in its own time, where workers would be had one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hippotune.executors.ray.pool._SAY_SECONDS", float("inf"))
        yield


def _is_on_ray(item: pytest.Item | None) -> bool:
    return item is not None and order.ON_RAY.search(item.nodeid) is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    """End the cluster after the last test on it."""
    try:
        return (yield)
    finally:
        while _open and not _is_on_ray(nextitem):
            _open.pop().close()
