"""Messages of all sessions of a plan on their way to its engine: sessions take turns, message by message.

The engine hears of workers too, and does more than read messages: a turn of it is a few milliseconds long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Protocol

_TURN_SECONDS = 0.005


class Reader(Protocol):
    """Handles its messages one by one."""

    def handle_next(self) -> bool:
        """Handle the next message, on the engine's thread; return whether there are more."""


class Inbox:
    """See the module. `post` has something called on the engine's thread."""

    def __init__(
        self, post: Callable[[Callable[[], None]], None], clock: Callable[[], float] = monotonic
    ) -> None:
        self._post = post
        self._clock = clock
        self._readers: deque[Reader] = deque()
        self._is_posted = False

    def put(self, reader: Reader) -> None:
        """A session has messages. From any thread."""
        self._readers.append(reader)
        if not self._is_posted:
            self._is_posted = True
            self._post(self._take_turn)

    def _take_turn(self) -> None:
        self._is_posted = False  # before looking: what comes from now on is another turn's
        until = self._clock() + _TURN_SECONDS
        while self._readers:
            reader = self._readers.popleft()
            if reader.handle_next():
                self._readers.append(reader)
            if self._readers and self._clock() > until:
                self.put(self._readers.popleft())
                return
