"""Plans and sessions over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from hippotune.sequences.config import Config
from hippotune.serve.bodies import Accepted, ConfigStep, PlanLine, SessionStart, Steps
from hippotune.serve.definition import Definition, PlanOpened
from hippotune.serve.guard import Guard, Refused, read_body, read_bytes, reply
from hippotune.serve.hub import Hub
from hippotune.serve.messages import Messages, SessionOpened, encode
from hippotune.serve.routes import Route
from hippotune.serve.served_plan import ServedPlan
from hippotune.serve.session import TunerSession
from hippotune.serve.streams import PULSES, following, pause_of, streamed

# How often a session with a deadline or a budget hears how it goes, at least.
_LIMITED_BEAT = 0.2
# How many messages of a session may wait to be handled.
_MOST_WAITING = 10_000


class PlanRoutes:
    """Handlers of what is below /plans and /code."""

    def __init__(self, hub: Hub, guard: Guard) -> None:
        self._hub = hub
        self._guard = guard

    def table(self) -> list[Route]:
        """Return what is served."""
        session = "/plans/{key}/sessions/{id}"
        return [
            Route(
                "POST",
                f"{session}/messages",
                "submit",
                self.take,
                body=Messages,
                answer=Accepted,
                statuses=(404, 409, 507),
            ),
            Route("PUT", "/code/{digest}", "submit", self.put_code, body=bytes, content="none"),
            Route("GET", "/plans", "read", self.plans, answer=list[PlanLine]),
            Route(
                "POST", "/plans", "submit", self.open, body=Definition, answer=PlanOpened, statuses=(503, 507)
            ),
            Route(
                "PUT",
                session,
                "submit",
                self.begin,
                body=SessionStart,
                answer=SessionOpened,
                statuses=(404, 507),
            ),
            Route(
                "GET",
                f"{session}/items",
                "submit",
                self.items,
                content="events",
                query=(PULSES,),
                statuses=(404, 410),
            ),
            Route("DELETE", session, "submit", self.end, content="none", statuses=(404,)),
            Route(
                "POST",
                "/plans/{key}/unshared",
                "read",
                self.unshared,
                body=ConfigStep,
                answer=Steps,
                statuses=(404,),
            ),
        ]

    async def put_code(self, request: Request) -> Response:
        """Keep a bundle or a pickled file, by its SHA-256."""
        self._hub.blobs.check_allowed("what is sent")
        content = await read_bytes(request, self._guard.limits.code_bytes)
        await asyncio.to_thread(self._hub.blobs.put, request.path_params["digest"], content)
        return Response(status_code=204)

    async def plans(self, request: Request) -> Response:
        """List the plans that are open."""
        return reply([await _line(plan) for plan in self._hub.plans])

    async def open(self, request: Request) -> Response:
        """Open the plan of a study."""
        definition = await self._body(request, Definition)
        return reply(await asyncio.to_thread(self._hub.open, definition, request.state.user.name))

    async def begin(self, request: Request) -> Response:
        """Begin a tuner's session under an id that the client chooses; again, the same one goes on."""
        start = await self._body(request, SessionStart)
        key, id, user = request.path_params["key"], request.path_params["id"], request.state.user.name
        most = self._guard.limits.sessions
        if self._hub.sessions_of(user, besides=id) >= most:
            raise Refused(429, f"{most:,} sessions of yours are open: end some of them", 60.0)
        plan = self._hub.plan(key)
        opened = await plan.begin_session(id, start.study, user)
        if start.metric is not None and start.mode is not None:
            await asyncio.to_thread(self._hub.set_aim, plan, start.study, start.metric, start.mode)
        return reply(opened)

    async def take(self, request: Request) -> Response:
        """Send a tuner's messages; those that were taken before are passed over."""
        _, session = self._session(request)
        batch = await self._body(request, Messages)
        if batch.first > session.expected:
            raise Refused(409, f"message {session.expected} comes next, and not {batch.first}")
        if session.waiting > _MOST_WAITING:
            raise Refused(429, f"{session.waiting:,} messages of the session wait to be handled", 1.0)
        session.accept(batch)
        return reply(Accepted(session.expected))

    async def items(self, request: Request) -> Response:
        """Follow what a session is answered; Last-Event-ID says after which number."""
        plan, session = self._session(request)
        said = request.headers.get("last-event-id", "0")
        after = int(said) if said.isdecimal() else 0
        if not session.outbox.knows(after):
            raise Refused(410, f"what comes after {after} is not here any more: begin another session")
        return streamed(_followed(plan, session, after, pause_of(request, 1.0)))

    async def end(self, request: Request) -> Response:
        """End a session: what it left open is withdrawn."""
        plan, session = self._session(request)
        await plan.end_session(session)
        return Response(status_code=204)

    async def unshared(self, request: Request) -> Response:
        """Say how many steps a config would have to be trained."""
        plan = self._hub.plan(request.path_params["key"])
        given = await self._body(request, ConfigStep)
        config = Config.from_json(given.config)
        return reply(Steps(await plan.ask(lambda: plan.runtime.plan.unshared(config, given.step))))

    def _session(self, request: Request) -> tuple[ServedPlan, TunerSession]:
        plan, session = self._hub.session(request.path_params["key"], request.path_params["id"])
        if session.user != request.state.user.name:
            raise Refused(403, "the session belongs to another user")
        return plan, session

    async def _body(self, request: Request, kind: type) -> Any:
        return await read_body(request, kind, self._guard.limits.body_bytes)


async def _line(plan: ServedPlan) -> PlanLine:
    engine, readings = plan.runtime.loop.engine, plan.runtime.loop.readings
    trained, requests = await plan.ask(lambda: (engine.trained, len(engine.state.requests)))
    studies = tuple(session.study for session in plan.sessions.values())
    return PlanLine(plan.key, plan.identity.key.trainer, studies, readings.workers, trained, requests)


async def _followed(
    plan: ServedPlan, session: TunerSession, after: int, every: float
) -> AsyncGenerator[bytes]:
    async def beat() -> bytes:
        return encode(await plan.ask(session.beat))

    def pause() -> float:
        return min(every, _LIMITED_BEAT) if session.has_limits else every

    session.streams += 1
    try:
        async with aclosing(following(session.outbox, after, beat, pause)) as events:
            async for event in events:
                yield event
    finally:
        session.streams -= 1
        session.left_at = time.monotonic()
