"""Writing off the event loop: facts are handed over at once, and word comes back when they are durable.

One thread writes. All that is handed over while a commit is under way goes into the next one, so the slower
the disk, the larger the commits, and the loop never waits. A write that fails ends the writing: everything
that is not durable by then, and all that is handed over later, is answered with the error.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from hippotune.errors import StoreError
from hippotune.plan.facts import Fact
from hippotune.store.base import Store

Then = Callable[[BaseException | None], object]
_Item = tuple[Sequence[Fact], Then | threading.Event | None]
_CLOSE: _Item = ((), None)


class Writer:
    """Writes facts to a store in the background, in the order in which they are handed over."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._error: BaseException | None = None
        self._closed = False
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
        self._queue.put((facts, then))

    def flush(self) -> None:
        """Wait until everything handed over is durable. Raises `StoreError` where it cannot be."""
        if not self._closed:
            reached = threading.Event()
            self._queue.put(((), reached))
            reached.wait()
        if self._error is not None:
            raise StoreError(f"facts can no longer be written: {self._error}") from self._error

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
            self._write([fact for facts, _ in items for fact in facts])
            with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                self._loop.call_soon_threadsafe(self._answer, items, self._error)
            for _, then in items:
                if isinstance(then, threading.Event):
                    then.set()

    def _write(self, facts: list[Fact]) -> None:
        if facts and self._error is None:
            try:
                self._store.write(facts)
            except Exception as error:
                self._error = error

    def _answer(self, items: list[_Item], error: BaseException | None) -> None:
        for _, then in items:
            if callable(then):
                self._loop.call_soon(then, error)  # one that raises keeps no other from being called
