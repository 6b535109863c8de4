"""Requests that come at once begin in turns: the event loop does other things in between."""

from __future__ import annotations

import asyncio
from time import monotonic

_TURN_SECONDS = 0.004


class Turns:
    """See the module. In one round of the event loop, requests begin for a few milliseconds at most."""

    def __init__(self) -> None:
        self._until: float | None = None

    async def wait(self) -> None:
        """Wait until there is time for another request."""
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
