"""The facts of plans over HTTP: listed, or followed as they come, each once and in order.

A cursor is an incarnation and a number. One of another incarnation is refused: what it has read is not what
is stored any more, and it begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from time import monotonic

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hippotune.executors.lease_log import FOLDER
from hippotune.history.listing import listing
from hippotune.history.printed import printed
from hippotune.identity.key import PlanKey
from hippotune.protocol.wire import encode_fact
from hippotune.serve.bodies import CatalogLine, FactLine, FactPage, FactPageJson, NodeSteps
from hippotune.serve.definition import KeyParts
from hippotune.serve.guard import Refused, read_body, reply
from hippotune.serve.health import Health
from hippotune.serve.hub import Hub, NotHere
from hippotune.serve.routes import Parameter, Route
from hippotune.serve.served_plan import ServedPlan
from hippotune.serve.streams import MOST_AT_ONCE, event, streamed
from hippotune.store.catalog import Catalog, open_store
from hippotune.store.files import checkpoint_folder

# Reading is work for the processor: more threads at once would only keep the event loop from it.
_READERS = 2
_NO_NUMBER = 1 << 62
_PAGE = 1000
_MOST_BYTES = 16 << 20
_MOST = 10_000
_LOOK_SECONDS = 1.0
# Facts that come within this time are told together.
_GATHER_SECONDS = 0.05
_KEEP_ALIVE_SECONDS = 10.0


class FactRoutes:
    """Handlers of facts."""

    def __init__(self, hub: Hub, health: Health) -> None:
        self._hub = hub
        self._health = health
        self._reading = asyncio.Semaphore(_READERS)

    def table(self) -> list[Route]:
        """Return what is served."""
        return [
            Route("GET", "/catalog", "read", self.catalog, answer=list[CatalogLine]),
            Route(
                "GET",
                "/plans/{key}/facts",
                "read",
                self.facts,
                answer=FactPageJson,
                follows=True,
                query=(
                    Parameter("after", int, "the number of the last fact that is known"),
                    Parameter("limit", int, f"how many to list, {_MOST} at most"),
                    Parameter("follow", int, "1 to follow as server-sent events"),
                ),
                statuses=(404, 410),
            ),
            Route(
                "POST",
                "/plans/{key}/printed",
                "read",
                self.printed,
                body=NodeSteps,
                answer=list[str],
                statuses=(404,),
            ),
        ]

    async def catalog(self, request: Request) -> Response:
        """List all studies of the store, whether they are tuned here or not."""
        async with self._reading:
            return reply(await asyncio.to_thread(self._catalog))

    def _catalog(self) -> list[CatalogLine]:
        with open_store(self._hub.folder, self._hub.store) as catalog:
            return [
                CatalogLine(
                    each.info.name,
                    KeyParts.of(each.info.key),
                    each.info.made,
                    each.info.used,
                    each.trials,
                    each.results,
                    each.bytes,
                    each.info.metric,
                    each.info.mode,
                    each.best,
                )
                for each in listing(catalog)
            ]

    async def facts(self, request: Request) -> Response:
        """List facts after a number; with Accept: text/event-stream, or follow=1, they are followed.

        The cursor is Last-Event-ID, as incarnation:number, or after.
        """
        key = request.path_params["key"]
        after, limit = _whole(request, "after", 0), min(_whole(request, "limit", _PAGE), _MOST)
        cursor = request.headers.get("last-event-id", "")
        said, _, number = cursor.rpartition(":")
        if cursor:
            after = int(number) if _is_whole(number) else _NO_NUMBER
        follows = _whole(request, "follow", 0) or "text/event-stream" in request.headers.get("accept", "")
        plan = self._open(key)
        facts: list[tuple[int, bytes]] = []
        if follows and plan is not None:
            incarnation, last = plan.incarnation, plan.feed.last
        else:
            incarnation, last, facts = await self._stored(key, after, 0 if follows else limit)
        if cursor and (said != incarnation or after > last):
            raise Refused(410, "the cursor is of another incarnation of the plan: begin anew, after=0")
        if follows:
            return streamed(self._followed(key, incarnation, after))
        lines = tuple(FactLine(number, msgspec.Raw(fact)) for number, fact in facts)
        self._health.facts.inc(len(lines))
        return reply(FactPage(incarnation, last, lines))

    async def printed(self, request: Request) -> Response:
        """Return the lines that training printed along nodes, as far as logs are on this machine."""
        given = await read_body(request, NodeSteps, _MOST_BYTES)
        async with self._reading:
            return reply(await asyncio.to_thread(self._printed, request.path_params["key"], given.reaches))

    def _printed(self, key: str, reaches: dict[int, int]) -> list[str]:
        with open_store(self._hub.folder, self._hub.store) as catalog:
            folder = checkpoint_folder(self._hub.folder, _found(catalog, key)) / FOLDER
        lines: list[str] = []
        room = _MOST_BYTES
        for line in printed(folder, reaches):
            room -= len(line)
            if room < 0:
                return [*lines, f"[more is in {folder}, on the server's machine]"]
            lines.append(line)
        return lines

    async def _stored(self, key: str, after: int, limit: int) -> tuple[str, int, list[tuple[int, bytes]]]:
        async with self._reading:
            return await asyncio.to_thread(self._read, key, after, limit)

    def _read(self, key: str, after: int, limit: int) -> tuple[str, int, list[tuple[int, bytes]]]:
        """Read from the store, whether the plan is open or not."""
        with open_store(self._hub.folder, self._hub.store) as catalog:
            store = catalog.view(_found(catalog, key))
            facts = [(number, encode_fact(fact)) for number, fact in store.facts(after, limit)]
            return store.incarnation, store.last_number, facts

    async def _followed(self, key: str, incarnation: str, after: int) -> AsyncGenerator[bytes, None]:
        """Yield facts as they come, from those at hand or, where they are older, from the store."""
        yield b": hello\n\n"
        said = monotonic()
        while True:
            plan = self._open(key)
            if plan is not None and plan.feed.knows(after):
                last, items = plan.feed.after(after, MOST_AT_ONCE)
                numbered = list(zip(range(after + 1, last + 1), items, strict=True))
            else:
                now, _, numbered = await self._stored(key, after, MOST_AT_ONCE)
                if now != incarnation:
                    return
            if numbered:
                yield b"".join(event(fact, f"{incarnation}:{number}") for number, fact in numbered)
                after, said = numbered[-1][0], monotonic()
                self._health.facts.inc(len(numbered))
            if monotonic() - said > _KEEP_ALIVE_SECONDS:
                yield b": still here\n\n"
                said = monotonic()
            if self._hub.is_draining:
                return
            if len(numbered) == MOST_AT_ONCE:
                continue
            if numbered:
                await asyncio.sleep(_GATHER_SECONDS)
            elif plan is None or not plan.feed.knows(after):
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                await plan.feed.wait(after, _LOOK_SECONDS)

    def _open(self, key: str) -> ServedPlan | None:
        try:
            return self._hub.plan(key)
        except NotHere:
            return None


def _found(catalog: Catalog, key: str) -> PlanKey:
    found = [info.key for info in catalog.plans() if info.key.digest == key]
    if not found:
        raise NotHere(f"there is no plan {key} in the store")
    return found[0]


def _whole(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not _is_whole(text):
        raise Refused(422, f"{name} is {text!r}; expected a whole number of at least 0")
    return int(text)


def _is_whole(text: str) -> bool:
    return text.isdecimal() and len(text) <= 18
