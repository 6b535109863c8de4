"""Messages of workers to the user, each text once: on the view that is open, or in the log."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_log = logging.getLogger("hippotune")
REMEMBERED = 500
"""How many texts are remembered."""


class Notes:
    """Messages from any thread to a view; they go to the log where there is none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: deque[str] = deque(maxlen=REMEMBERED)
        self._unread: list[str] = []
        self._readers = 0

    def tell(self, text: str) -> None:
        """Have a text read, unless it was told before."""
        with self._lock:
            if text in self._said:
                return
            self._said.append(text)
            if self._readers:
                self._unread.append(text)
                return
        _log.warning("%s", text)

    @contextmanager
    def read_by(self, show: Callable[[str], None]) -> Iterator[Callable[[], None]]:
        """Yield a function that shows what was told since it was last called; at the end, it is called."""

        def catch_up() -> None:
            with self._lock:
                texts, self._unread = self._unread, []
            for text in texts:
                show(text)

        with self._lock:
            self._readers += 1
        try:
            yield catch_up
        finally:
            with self._lock:
                self._readers -= 1
            catch_up()
