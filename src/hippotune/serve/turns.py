"""Requests that come at once begin in turns, and so do parts of streams: others come in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

_TURN_SECONDS = 0.003


class Turns:
    """See the module. In one round of the event loop, turns begin for a few milliseconds at most."""

    def __init__(self) -> None:
        self._until: float | None = None

    async def wait(self) -> None:
        """Wait until there is time for another turn."""
        while True:
            now = monotonic()
            if self._until is None:
                self._until = now + _TURN_SECONDS
                asyncio.get_running_loop().call_soon(self._renew)  # in the next round
            if now <= self._until:
                return
            await asyncio.sleep(0)

    def _renew(self) -> None:
        self._until = None

    async def each(self, parts: AsyncGenerator[T]) -> AsyncGenerator[T]:
        """Pass on the parts of a stream, each in a turn of its own."""
        async with aclosing(parts):
            async for part in parts:
                await self.wait()
                yield part
