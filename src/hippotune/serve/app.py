"""The application: the table of routes, behind the guard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute

import hippotune
from hippotune.serve.fact_routes import FactRoutes
from hippotune.serve.guard import Guard, Refused, reply
from hippotune.serve.health import Health
from hippotune.serve.hub import Hub
from hippotune.serve.model_routes import ModelRoutes
from hippotune.serve.openapi import document
from hippotune.serve.pages import Pages
from hippotune.serve.plan_routes import PlanRoutes
from hippotune.serve.routes import Route
from hippotune.serve.studies import Studies
from hippotune.serve.study_routes import StudyRoutes, with_names
from hippotune.serve.version import MINIMUM, VERSION
from hippotune.shell.loop_thread import is_being_cancelled
from hippotune.store.catalog import open_store

_log = logging.getLogger("hippotune.serve")
_SWEEP_SECONDS = 2.0
# Clients of the last server have come back before its code is looked through.
_CODE_SECONDS = 3600.0
# Pages that nobody has looked at for this time are forgotten.
_PAGE_SECONDS = 300.0
_STORE_SECONDS = 5.0
_THREADS = 64


class Versions(Struct):
    """What the server speaks: its API's version, the least that a client needs, and Hippo's own."""

    version: int
    minimum: int
    hippotune: str


class Application:
    """Everything that is served."""

    def __init__(
        self,
        hub: Hub,
        studies: Studies,
        pages: Pages,
        guard: Guard,
        health: Health,
        stop: Callable[[], None],
    ) -> None:
        self._hub = hub
        self._studies = studies
        self._pages = pages
        self._health = health
        self._stop = stop
        health.gauge("plans", "Plans that are open", lambda: len(hub.plans))
        health.gauge("sessions", "Sessions of tuners", lambda: sum(len(plan.sessions) for plan in hub.plans))
        health.gauge(
            "steps_trained",
            "Steps trained in the plans that are open",
            lambda: sum(plan.runtime.loop.engine.trained for plan in hub.plans),
        )
        self.table = [  # what is asked for most comes first: routes are tried in this order
            *PlanRoutes(hub, guard).table(),
            *self._own(),
            *FactRoutes(hub, health).table(),
            *ModelRoutes(hub, guard).table(),
            *StudyRoutes(studies, hub, guard).table(),
            *pages.table(),
        ]
        self.routed = Starlette(
            routes=[
                *(
                    HttpRoute(
                        route.path,
                        guard.around(route.path, route.role, route.handler),
                        methods=[route.method],
                    )
                    for route in self.table
                ),
                pages.mount,
            ],
            lifespan=self._lifespan,
        )
        self.asgi = guard.turns.around(with_names(self.routed))

    def _own(self) -> list[Route]:
        return [
            Route("GET", "/version", "none", self.version, answer=Versions),
            Route("GET", "/healthz", "none", self.healthz, content="text", statuses=(503,)),
            Route("GET", "/metrics", "read", self.metrics, content="text"),
            Route("GET", "/openapi.json", "none", self.openapi, answer=dict[str, Any]),
            Route("POST", "/release", "admin", self.release, content="none"),
            Route("POST", "/stop", "admin", self.stop, content="none"),
        ]

    async def version(self, request: Request) -> Response:
        """Say which versions fit."""
        return reply(Versions(VERSION, MINIMUM, hippotune.__version__))

    async def healthz(self, request: Request) -> Response:
        """Say whether the server is well: 503 where its event loop lags or its store does not answer."""
        if self._health.is_lagging:
            raise Refused(503, f"the event loop lags by {self._health.lag:.1f} s")
        try:
            await asyncio.wait_for(asyncio.to_thread(self._ask_store), _STORE_SECONDS)
        except TimeoutError:
            raise Refused(503, f"the store does not answer within {_STORE_SECONDS:.0f} s") from None
        return Response("well\n", media_type="text/plain")

    def _ask_store(self) -> None:
        with open_store(self._hub.folder, self._hub.store) as catalog:
            catalog.plans()

    async def metrics(self, request: Request) -> Response:
        """Numbers for Prometheus."""
        numbers = await asyncio.to_thread(self._health.numbers)
        return Response(numbers, media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """Return this document."""
        return reply(document(self.table))

    async def release(self, request: Request) -> Response:
        """Let held plans train."""
        await self._hub.release()
        return Response(status_code=204)

    async def stop(self, request: Request) -> Response:
        """Save what runs, and end the server."""
        self._stop()
        return Response(status_code=204)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        # Threads that wait for processes of user code leave enough of them for everything else.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "requests"))
        async with anyio.create_task_group():  # which streams have; it imports much at its first use
            pass
        jobs = (
            self._health.watch(),
            repeated(_SWEEP_SECONDS, self._hub.sweep),
            repeated(_CODE_SECONDS, self._sweep_code),
            repeated(_PAGE_SECONDS, self._pages.close_unused),
        )
        tasks = [asyncio.create_task(job) for job in jobs]
        self._hub.begin()
        self._studies.begin()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await self._pages.close()

    async def _sweep_code(self) -> None:
        needed = self._hub.code_in_use | self._studies.code_in_use
        await asyncio.to_thread(self._hub.blobs.remove_unused, needed)


async def repeated(seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do something again and again, after a pause each time. What goes wrong is logged and ends nothing."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except (Exception, asyncio.CancelledError):  # what is waited for may be cancelled by itself
            if is_being_cancelled():
                raise
            _log.exception("%s failed; it is tried again in %g s", work.__qualname__, seconds)


def document_of_all() -> dict[str, Any]:
    """Return the OpenAPI document, without serving anything."""
    from hippotune.serve.blobs import Blobs
    from hippotune.serve.guard import UserLimits
    from hippotune.serve.hub import ServerSetup
    from hippotune.serve.probing import Probes
    from hippotune.serve.tokens import Tokens

    health, tokens = Health(), Tokens()
    blobs = Blobs(Path(), allow_code=False)
    guard = Guard(tokens, health, (), UserLimits())
    hub = Hub(ServerSetup(Path(), None, NotImplemented), blobs, Probes(dict))
    studies = Studies(Path(), blobs, hub.identify, tokens, dict, str)
    pages = Pages(hub, studies, ())
    return document(Application(hub, studies, pages, guard, health, lambda: None).table)
