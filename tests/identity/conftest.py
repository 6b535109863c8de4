"""What tests of what a plan is keyed by need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hippotune.executors.local import fork_server


@pytest.fixture(scope="module", autouse=True)
def spares() -> Iterator[None]:
    """Have what stands by for one study serve the next, as on a server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fork_server, "SPARE_SECONDS", 120.0)
        yield
