"""Waiting for a server that is away: how long, and what a person is told of it.

A short interruption is passed over. What lasts longer is told once for each cause, and so is its end.
"""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType
from typing import Self

from hippotune.errors import HippoError

_log = logging.getLogger("hippotune")
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_UNTOLD_SECONDS = 1.0


class ServerLost(HippoError):
    """A server cannot be reached, or asks to be tried again; `cause` says why in short."""

    def __init__(self, text: str, cause: str = "") -> None:
        super().__init__(text)
        self.cause = cause or text


class Outage:
    """What all threads and tasks of a client wait for, told as one. `is_away` says how the last try went."""

    def __init__(self, url: str) -> None:
        self.is_away = False
        self._url = url
        self._lock = threading.Lock()
        self._waiting: set[Pause] = set()
        self._told: set[str] = set()

    def waits(self, pause: Pause, cause: str) -> None:
        """Something waits; a cause is said, unless it was said already."""
        with self._lock:
            self.is_away = True
            self._waiting.add(pause)
            is_new = bool(cause) and cause not in self._told
            self._told |= {cause} if is_new else set()
        if is_new:
            _log.warning("waiting for the server at %s: %s; Ctrl-C leaves", self._url, cause)

    def ends(self, pause: Pause, answered: bool) -> None:
        """Something waits no more: the server has `answered`, or it was given up."""
        with self._lock:
            self.is_away = self.is_away and not answered
            self._waiting.discard(pause)
            if self._waiting or not self._told:
                return
            self._told.clear()
        if not self.is_away:
            _log.warning("going on: the server at %s answers again", self._url)


class Pause:
    """How long to wait before the next try, up to a limit in all. The block that it is for ends the wait."""

    def __init__(self, patience: float, outage: Outage) -> None:
        self._patience = patience
        self._outage = outage
        self._begin()

    def _begin(self) -> None:
        self._since: float | None = None
        self._until = time.monotonic() + self._patience
        self._seconds = _FIRST_PAUSE

    def next(self, error: Exception) -> float:
        """Return the seconds to wait; raises the error where it has been too long."""
        now = time.monotonic()
        if now > self._until:
            raise error
        self._since = now if self._since is None else self._since
        lasts = now - self._since >= _UNTOLD_SECONDS
        self._outage.waits(self, getattr(error, "cause", str(error)) if lasts else "")
        seconds, self._seconds = self._seconds, min(2 * self._seconds, _LONGEST_PAUSE)
        return seconds

    def over(self) -> None:
        """The server has answered: the next wait may take as long again."""
        if self._since is not None:
            self._outage.ends(self, answered=True)
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or (isinstance(error, Exception) and not isinstance(error, ServerLost)):
            self.over()
        else:
            self._outage.ends(self, answered=False)
