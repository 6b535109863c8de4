from __future__ import annotations

from collections.abc import Iterator

import pytest

from executors.ray_nodes import Nodes

pytest.register_assert_rewrite("executors.conformance", "executors.rig")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Nodes]:
    """A Ray cluster of two nodes, a slot on each, that this process is part of."""
    nodes = Nodes()
    yield nodes
    nodes.close()
