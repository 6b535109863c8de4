"""What one side of a stream has to say: numbered from 1, or after a `last` one, and kept until it was heard.

Any thread may put; streams wait on the event loop that the outbox was made for.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress


class Outbox:
    """See the module."""

    def __init__(self, aio: asyncio.AbstractEventLoop, last: int = 0) -> None:
        self._aio = aio
        self._lock = threading.Lock()
        self._items: list[bytes] = []
        self._dropped = last
        self._news = asyncio.Event()
        self._is_waking = False
        self.is_closed = False

    def put(self, *items: bytes, later: bool = False) -> None:
        """Say something; with `later`, streams need not hear of it before the next that is said."""
        with self._lock:
            self._items += items
        if not later:
            self._wake()

    def close(self) -> None:
        """Say nothing more: streams end when all was heard."""
        self.is_closed = True
        self._wake()

    def _wake(self) -> None:
        if not self._is_waking:
            self._is_waking = True
            with suppress(RuntimeError):  # the event loop is closed
                self._aio.call_soon_threadsafe(self._tell_streams)

    def _tell_streams(self) -> None:
        self._is_waking = False  # before they look: what comes from now on wakes them again
        self._news.set()

    def after(self, number: int, most: int) -> tuple[int, list[bytes]]:
        """Return what comes after a number, as much as is asked for, and the number of the last of it."""
        with self._lock:
            first = max(number - self._dropped, 0)
            items = self._items[first : first + most]
            return self._dropped + first + len(items), items

    @property
    def last(self) -> int:
        """The number of the last that was put."""
        with self._lock:
            return self._dropped + len(self._items)

    def knows(self, number: int) -> bool:
        """Whether everything after a number is still here."""
        return self._dropped <= number <= self._dropped + len(self._items)

    def heard(self, number: int) -> None:
        """Forget what comes up to a number."""
        with self._lock:
            count = min(number - self._dropped, len(self._items))
            if count > 0:
                del self._items[:count]
                self._dropped += count

    def __len__(self) -> int:
        return len(self._items)

    async def wait(self, number: int, timeout: float) -> None:
        """Wait until there is something after a number, or it is closed, for `timeout` seconds at most."""
        while self.last <= number and not self.is_closed:
            self._news.clear()
            if self.last > number or self.is_closed:
                return
            try:
                async with asyncio.timeout(timeout):
                    await self._news.wait()
            except TimeoutError:
                return
