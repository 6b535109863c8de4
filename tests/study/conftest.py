"""What holds for studies holds in one process and on a server: each test runs in every place that it can.

A server is started for each home that a study names, with the workers that the study brings; the study itself
gets the server's address, and neither home nor workers. `places.py` says what cannot be asked of a server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hippotune.executors.base import Executor
from hippotune.executors.local.executor import Local
from hippotune.study.study import Study
from served.serving import Running
from study.places import IN_PROCESS, places_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    file = metafunc.module.__name__.rpartition(".")[2]
    metafunc.parametrize("place", places_of(file, metafunc.function.__name__), indirect=True)


class Homes:
    """A server for every home that a study names, with the workers that it brings."""

    def __init__(self) -> None:
        self._servers: dict[str, Running] = {}

    def at(self, home: str | Path, executor: Executor | None) -> str:
        place = str(home) if "://" in str(home) else str(Path(home).resolve())
        if place not in self._servers:
            given = Local(workers=1) if executor is None else executor
            self._servers[place] = Running(place, lambda: Local(given.workers, threads=given.threads))
        return self._servers[place].url

    def stop(self) -> None:
        for server in self._servers.values():
            server.stop()


@pytest.fixture(scope="module", autouse=True)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where studies with real workers are: "in process", or on a server with their tuner there or here."""
    if request.param == IN_PROCESS:
        yield request.param
        return
    homes, make, elsewhere = Homes(), Study.__init__, tmp_path_factory.mktemp("client")

    def __init__(self: Study, *given: Any, home: Any = ".hippo", executor: Any = None, **more: Any) -> None:
        if executor is not None and executor.virtual:
            make(self, *given, home=home, executor=executor, **more)
        else:
            url = homes.at(home, executor)
            make(self, *given, home=elsewhere, url=url, tuner=request.param, code="value", **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Study, "__init__", __init__)
        yield request.param
    homes.stop()
