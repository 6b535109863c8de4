"""An event loop on a daemon thread of its own.

So studies work the same in a script, in a notebook (whose own event loop is busy) and below `asyncio.run`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from hippotune.errors import HippoError

T = TypeVar("T")


class PlanClosed(HippoError):
    """The plan was closed while it was in use."""


class LoopThread(ABC):
    """See the module. Any thread may call any method."""

    def __init__(self, name: str) -> None:
        self._aio = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._aio.run_forever, name=name, daemon=True)
        self._gate = threading.RLock()
        self._stopped = False

    def start(self) -> None:
        """Start the thread, and what runs on it."""
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self.close()
            raise

    @abstractmethod
    async def _start(self) -> None:
        """Begin, on the loop's thread."""

    @abstractmethod
    def close(self) -> None:
        """End everything, and the thread by `_stop`. May be called twice."""

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the loop's thread. Raises `PlanClosed` once that has ended."""
        with self._gate:
            if self._stopped:
                coroutine.close()
                raise PlanClosed("the plan was closed meanwhile")
            return asyncio.run_coroutine_threadsafe(coroutine, self._aio)

    def post(self, call: Callable[[], None]) -> None:
        """Have a function called on the loop's thread, soon; never once that has ended."""
        with suppress(RuntimeError):  # its event loop is closed
            self._aio.call_soon_threadsafe(call)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop's thread and wait for it."""
        return self.spawn(coroutine).result()

    def ask(self, question: Callable[[], T]) -> T:
        """Call a function on the loop's thread and wait for what it returns."""

        async def asked() -> T:
            return question()

        try:
            return self.run(asked())
        except concurrent.futures.CancelledError:
            raise PlanClosed("the plan was closed meanwhile") from None

    def _stop(self) -> None:
        """Cancel all that runs on the loop, and end the thread."""
        with self._gate:  # what is spawned before this is cancelled, and nothing is spawned after it
            with suppress(Exception):
                self.run(_cancel_others())
            self._stopped = True
        self._aio.call_soon_threadsafe(self._aio.stop)
        self._thread.join(timeout=10)
        if not self._thread.is_alive():
            self._aio.close()


def is_being_cancelled() -> bool:
    """Whether this very task is cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _cancel_others() -> None:
    """Cancel all tasks of the loop but this one: those who wait for what will not come any more."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
