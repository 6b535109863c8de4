"""Servers for tests: real HTTP on loopback, with the workers and stores of real studies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hippotune.executors.base import Executor
from hippotune.executors.local.executor import Local
from hippotune.serve.program import Options, Server
from hippotune.store.homes import parse_home
from hippotune.store.served import ServedHome

_MOST_SECONDS = 120.0


class Running:
    """A server on a thread of this process."""

    def __init__(
        self, home: Path | str, make: Callable[[str], Executor] | None = None, **options: Any
    ) -> None:
        make = make or (lambda study: Local(workers=1))
        given = Options(home=home, make_executor=make, port=0, **{"allow_code": True, **options})
        self._home = ServedHome(parse_home(home)[0])
        self.said: list[str] = []
        self.server = Server(given, self._home, self.said.append)
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        wait_for(lambda: self.server.is_up)
        self.url = self.server.url

    def stop(self) -> None:
        self.server.stop()
        self._thread.join(_MOST_SECONDS)
        self._home.release()
        assert not self._thread.is_alive()


@contextmanager
def serving(
    home: Path | str, make: Callable[[str], Executor] | None = None, **options: Any
) -> Iterator[Running]:
    running = Running(home, make, **options)
    try:
        yield running
    finally:
        running.stop()


def wait_for(condition: Callable[[], Any]) -> Any:
    """Wait until something is so, and return it."""
    until = time.monotonic() + _MOST_SECONDS
    while not (found := condition()):
        assert time.monotonic() < until, "it did not come to be"
        time.sleep(0.02)
    return found
