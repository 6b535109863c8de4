"""Writes facts off the event loop: they are handed over at once, and a callback says when they are durable.

One thread writes. All that is handed over while a commit is under way goes into the next one, so the slower
the disk, the larger the commits, and the loop never waits. A database that cannot be reached is tried again
and again, within limits of time and memory, while training goes on. Any other write that fails, and an
outage beyond its limits, ends the writing: everything that is not durable by then, and all that is handed
over later, is answered with the error.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Protocol

from hippotune.errors import StoreError
from hippotune.plan.facts import Fact, NumbersRecorded
from hippotune.store.base import ConnectionLost, Store, Written

Then = Callable[[BaseException | None], object]
_Item = tuple[Sequence[Fact], Then | None]
_CLOSE: _Item = ((), None)
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0


class FactWriter(Protocol):
    """Makes facts durable, then calls back on the event loop that it was made for.

    `published` is called with what is in the log now, before anyone is told that it is durable.
    """

    published: Callable[[Written], None] | None

    def submit(self, facts: Sequence[Fact], then: Then) -> None:
        """Take facts; call `then` with None when they and all before them are durable, or with the error."""


class ImmediateWriter:
    """Writes at once: for stores that live in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.published: Callable[[Written], None] | None = None

    def submit(self, facts: Sequence[Fact], then: Then) -> None:
        """Write, then call back."""
        written = self._store.write(facts)
        if self.published is not None:
            self.published(written)
        then(None)


@dataclass(frozen=True, slots=True)
class OutageLimits:
    """How long a database may be away, and how many facts and logged numbers are kept in memory meanwhile."""

    seconds: float = 600.0
    facts: int = 1_000_000


class Writer:
    """Writes facts to a store in the background, in the order in which they are handed over."""

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        note: Callable[[str], None] = lambda _: None,
        limits: OutageLimits = OutageLimits(),  # noqa: B008
    ) -> None:
        self._store = store
        self._loop = loop
        self._note = note
        self._limits = limits
        self._handed_over = self._written = 0
        self._error: BaseException | None = None
        self._closed = False
        self.published: Callable[[Written], None] | None = None
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="hippo-writer", daemon=True)
        self._thread.start()

    def submit(self, facts: Sequence[Fact], then: Then) -> None:
        """Hand facts over; `then(None)` is called on the loop when they and all before them are durable.

        Where they cannot be written, `then` is called with the error. Without facts it is called when
        everything before is durable.
        """
        if self._closed:
            raise StoreError("facts were handed over after the writer was closed")
        self._handed_over += _amount(facts)
        self._queue.put((facts, then))

    def close(self) -> None:
        """Write what was handed over and end the thread. May be called twice."""
        if not self._closed:
            self._closed = True
            self._queue.put(_CLOSE)
        self._thread.join()

    def _run(self) -> None:
        last: _Item | None = None
        while last is not _CLOSE:
            items = [self._queue.get()]
            with suppress(Empty):
                while items[-1] is not _CLOSE:
                    items.append(self._queue.get_nowait())
            last = items[-1]
            written = self._write([fact for facts, _ in items for fact in facts])
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._answer, items, self._error, written)

    def _write(self, facts: list[Fact]) -> Written | None:
        written = None
        if facts and self._error is None:
            try:
                written = self._insist(facts)
            except Exception as error:
                self._error = error
            self._written += _amount(facts)
        return written

    def _insist(self, facts: list[Fact]) -> Written:
        """Write facts as soon as the database can be reached: always the same, they may be stored already."""
        lost_at: float | None = None
        pause = _FIRST_PAUSE
        while True:
            try:
                written = self._store.write(facts)
            except ConnectionLost as error:
                lost_at = monotonic() if lost_at is None else lost_at
                self._check_outage(error, monotonic() - lost_at)
            else:
                break
            sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        if lost_at is not None:
            self._note(f"the database is back after {monotonic() - lost_at:.0f} s: nothing was lost")
        return written

    def _check_outage(self, error: ConnectionLost, seconds: float) -> None:
        """Go on without the database; raise `StoreError` where that has been so for too long."""
        limits, waiting = self._limits, self._handed_over - self._written
        most = f"{limits.seconds:.0f} s, or {limits.facts:,} of them"
        if seconds >= limits.seconds or waiting > limits.facts:
            raise StoreError(
                f"{error}. {waiting:,} facts and logged numbers could not be written for {seconds:.0f} s "
                f"(at most {most}): run again when the database is back"
            ) from error
        self._note(
            f"{error}. Training goes on; facts and logged numbers are kept in memory for at most {most}"
        )

    def _answer(self, items: list[_Item], error: BaseException | None, written: Written | None) -> None:
        if self.published is not None and written is not None:
            self._loop.call_soon(self.published, written)
        for _, then in items:
            if then is not None:
                self._loop.call_soon(then, error)  # one that raises keeps no other from being called


def _amount(facts: Sequence[Fact]) -> int:
    """Return how many facts and logged numbers there are: what they take in memory goes by that."""
    numbers = (fact for fact in facts if isinstance(fact, NumbersRecorded))
    return len(facts) + sum(len(fact.steps) * len(fact.numbers) for fact in numbers)
