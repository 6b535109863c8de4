"""Coroutines that wait for a condition, and are woken together to check it."""

from __future__ import annotations

import asyncio


class Waiters:
    """See the module. On one event loop."""

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    def wait(self) -> asyncio.Future[None]:
        """Return what to wait for."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        return future

    def wake(self) -> None:
        """Wake all that wait, to check again."""
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)

    def __bool__(self) -> bool:
        return bool(self._futures)
