"""Studies that are tuned on the server, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hippotune.serve.bodies import Retried, Retry
from hippotune.serve.definition import Submission
from hippotune.serve.guard import Guard, Refused, read_body, reply
from hippotune.serve.hub import Hub, NotHere
from hippotune.serve.messages import encode
from hippotune.serve.records import MOST_NOTES, Ended, StudyLine, StudyRecord, line_of
from hippotune.serve.routes import Route
from hippotune.serve.streams import PULSES, event, following, pause_of, streamed
from hippotune.serve.studies import Studies, TunedStudy, owned

_END_BYTES = 256 << 20
_ALL = "/studies"


class Going(Struct, forbid_unknown_fields=True):
    """What a tuner's process has to tell: how it goes, texts for people, and worker-seconds spent."""

    snapshot: msgspec.Raw = msgspec.Raw()
    notes: Annotated[tuple[str, ...], Meta(max_length=MOST_NOTES)] = ()
    spent: Annotated[float, Meta(ge=0)] = 0.0


class GoingJson(Struct):
    """The same for the document: a snapshot is an object that is passed on."""

    snapshot: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    spent: float = 0.0


class StudyRoutes:
    """Handlers of what is below /studies."""

    def __init__(self, studies: Studies, hub: Hub, guard: Guard) -> None:
        self._studies = studies
        self._hub = hub
        self._guard = guard

    def table(self) -> list[Route]:
        """Return what is served."""
        one = f"{_ALL}/{{name}}"
        return [
            Route("GET", _ALL, "read", self.list, answer=list[StudyLine]),
            Route("PUT", one, "submit", self.submit, body=Submission, answer=StudyLine, statuses=(409, 507)),
            Route("GET", one, "read", self.get, answer=StudyRecord, statuses=(404,)),
            Route("DELETE", one, "submit", self.stop, content="none", statuses=(404,)),
            Route(
                "POST",
                f"{one}/retry",
                "submit",
                self.retry,
                body=Retry,
                answer=Retried,
                statuses=(404, 503, 507),
            ),
            Route(
                "GET",
                f"{one}/events",
                "read",
                self.events,
                content="events",
                query=(PULSES,),
                statuses=(404,),
            ),
            Route(
                "POST",
                f"{one}/progress",
                "submit",
                self.progress,
                body=GoingJson,
                content="none",
                statuses=(404,),
            ),
            Route("POST", f"{one}/end", "submit", self.end, body=Ended, content="none", statuses=(404, 507)),
        ]

    async def list(self, request: Request) -> Response:
        """List studies."""
        return reply([line_of(record) for record in self._studies.list()])

    async def submit(self, request: Request) -> Response:
        """Tune a study; the same again is the same study."""
        limits = self._guard.limits
        submission = await read_body(request, Submission, limits.body_bytes)
        name, user = _name(request), request.state.user.name
        record = await asyncio.to_thread(self._studies.submit, name, submission, user, limits.studies)
        return reply(line_of(record))

    async def get(self, request: Request) -> Response:
        """Return a study."""
        return reply(self._studies.get(_name(request)).record)

    async def stop(self, request: Request) -> Response:
        """End a study where it is; what was trained stays."""
        live = self._own(request)
        await asyncio.to_thread(self._studies.stop, live.record.name)
        await self._hub.stop_study(live.record.name, live.record.user, request.state.user.name)
        return Response(status_code=204)

    async def retry(self, request: Request) -> Response:
        """Have trials that failed or are suspended tried again when their study is next run."""
        given = await read_body(request, Retry, self._guard.limits.body_bytes)
        with suppress(NotHere):  # one whose tuner is elsewhere: any who may submit may ask for more of it
            self._own(request)
        return reply(
            Retried(await asyncio.to_thread(self._hub.retry, _name(request), given.plan, given.trial))
        )

    async def events(self, request: Request) -> Response:
        """Follow a study: notes, snapshots as pulses, and its end."""
        live = self._studies.get(_name(request))
        said = request.headers.get("last-event-id", "0")
        after = int(said) if said.isdecimal() and live.outbox.knows(int(said)) else 0
        every = pause_of(request, 0.2)

        async def beat() -> bytes:
            return live.snapshot or b"null"

        async def events() -> AsyncGenerator[bytes]:
            async with aclosing(following(live.outbox, after, beat, lambda: every)) as told:
                async for each in told:
                    yield each
            yield event(await beat(), kind="pulse")  # how things were at the end

        return streamed(events())

    async def progress(self, request: Request) -> Response:
        """A tuner's process says how it goes."""
        live = self._own(request)
        going = await read_body(request, Going, self._guard.limits.body_bytes)
        if bytes(going.snapshot):
            live.snapshot = encode(msgspec.json.decode(going.snapshot))  # on one line
        if live.is_running:
            live.outbox.put(*(encode({"type": "note", "text": text}) for text in going.notes))
            if live.record.submission.tuned.worker_seconds is not None:
                await asyncio.to_thread(self._studies.add_spent, live.record.name, going.spent)
        return Response(status_code=204)

    async def end(self, request: Request) -> Response:
        """A tuner's process has ended: this is recorded before it is answered."""
        live = self._own(request)
        end = await read_body(request, Ended, _END_BYTES)
        await asyncio.to_thread(self._studies.end, live.record.name, end)
        return Response(status_code=204)

    def _own(self, request: Request) -> TunedStudy:
        live, user = self._studies.get(_name(request)), request.state.user
        if not owned(live.record, user.name) and not user.may("admin"):
            raise Refused(403, f"the study belongs to {live.record.user}")
        return live


def with_names(app: ASGIApp) -> ASGIApp:
    """Return an application that finds a study by any name: a slash in it is no part of the address."""

    async def found(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(f"{_ALL}/"):
            scope["path"] = scope["raw_path"].decode("latin-1")  # as it was sent: `_name` decodes it
        await app(scope, receive, send)

    return found


def _name(request: Request) -> str:
    return unquote(request.path_params["name"])
