"""Requests that come at once begin in turns, and so do parts of streams: others come in between.

In one round of the event loop a few of them begin. The others wait in the order in which they came, and cost
nothing meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import monotonic
from typing import TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

T = TypeVar("T")

# When a request came, in its scope.
CAME = "hippo.came"
_AT_ONCE = 10


class RequestTurns:
    """See the module."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._left = _AT_ONCE

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return an application whose requests begin in turns."""

        async def in_turn(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                scope[CAME] = monotonic()
                await self.wait()
            await app(scope, receive, send)

        return in_turn

    async def wait(self) -> None:
        """Wait for a turn."""
        loop = asyncio.get_running_loop()
        if self._left == _AT_ONCE:
            loop.call_soon(self._renew)  # in the next round
        if self._left and not self._waiting:
            self._left -= 1
        else:
            turn = loop.create_future()
            self._waiting.append(turn)
            await turn

    def _renew(self) -> None:
        self._left = _AT_ONCE
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # its request may be gone
                turn.set_result(None)
                self._left -= 1
        if self._left < _AT_ONCE:
            asyncio.get_running_loop().call_soon(self._renew)

    async def each(self, parts: AsyncGenerator[T]) -> AsyncGenerator[T]:
        """Pass on the parts of a stream, each in a turn of its own."""
        async with aclosing(parts):
            async for part in parts:
                await self.wait()
                yield part
