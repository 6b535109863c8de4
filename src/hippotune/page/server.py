"""A page of one plan on this machine: a small server on a thread of its own, on loopback alone."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hippotune.errors import InvalidInput, MissingExtra
from hippotune.page.bundle import asset
from hippotune.page.source import Source

if TYPE_CHECKING:
    from hippotune.page.actions import PlanActions
    from hippotune.page.feed import PageFeed

_HOST = "127.0.0.1"
PORT = 8478
"""Where pages are served, unless something else is there already."""


class PageServer:
    """Serves the page of a plan as long as the block runs.

    `url` lets one visitor in, who may act where `actions` makes it possible.
    """

    def __init__(
        self,
        plan: str,
        source: Source,
        home: Path,
        port: int | None = None,
        every: float = 0.1,
        actions: Callable[[PageFeed], PlanActions] | None = None,
    ) -> None:
        try:
            import uvicorn
            from starlette.middleware.trustedhost import TrustedHostMiddleware

            from hippotune.page.app import page_app
            from hippotune.page.feed import PageFeed
            from hippotune.page.login import Logins, Visitor, kept_key
        except ImportError as error:
            raise MissingExtra(
                f"serving the page needs Starlette and uvicorn ({error}): pip install 'hippotune[serve]'"
            ) from error
        asset("index.html")  # which says so where the page is not built
        self._socket = _listening(port)
        self._feed = PageFeed(source, every)
        self._logins = logins = Logins(partial(kept_key, home))
        made = None if actions is None else actions(self._feed)
        app = page_app(_Single(plan, self._feed, made), logins)
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[_HOST, "localhost"])
        config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")
        config.timeout_graceful_shutdown = 2
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop
        self._ready = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="hippo-page", daemon=True)
        self.address = f"http://{_HOST}:{self._socket.getsockname()[1]}/"
        self._visitor = Visitor("", "read" if actions is None else "admin")
        self.url = self.visitor()

    def visitor(self) -> str:
        """Return an address that lets one more visitor in."""
        return f"{self.address}login?code={self._logins.code(self._visitor)}"

    @property
    def followers(self) -> int:
        """How many streams are open."""
        return self._feed.followers

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._feed.snapshot()  # so that the first visitor does not wait for it
        self._ready.set()
        await self._server.serve([self._socket])

    def __enter__(self) -> Self:
        self._socket.listen()
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Wait until the server has ended."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Tell visitors what is left to tell, and end."""
        if self._thread.is_alive():
            with suppress(RuntimeError, TimeoutError):
                asyncio.run_coroutine_threadsafe(self._feed.close(), self._loop).result(60)
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()


class _Single:
    """The one plan that is served."""

    def __init__(self, plan: str, feed: PageFeed, actions: PlanActions | None) -> None:
        self._plan = plan
        self._feed = feed
        self._actions = actions

    async def feed(self, plan: str) -> PageFeed | None:
        """Return its feed."""
        return self._feed if plan == self._plan else None

    def first(self) -> str:
        """Return its name."""
        return self._plan

    def actions(self, plan: str) -> PlanActions | None:
        """Return what can be done on it."""
        return self._actions if plan == self._plan else None


def _listening(port: int | None) -> socket.socket:
    """Return a socket that listens: on the port that was asked for, or the usual one, or any."""
    for wanted in (port,) if port is not None else (PORT, 0):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((_HOST, wanted))
        except OSError as error:
            made.close()
            if wanted == port:
                raise InvalidInput(f"the page cannot be served on port {port}: {error.strerror}") from error
            continue
        return made
    raise InvalidInput("no port of this machine is free to serve the page on")
