"""The page over HTTP: its files, snapshots and streams, for visitors who have logged in.

It is one Starlette application that is served by itself or mounted below another one. Plans are found when
they are asked for; every address is relative to where it is mounted.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from hippotune.errors import HippoError
from hippotune.page.bundle import STATIC, NotBuilt, asset
from hippotune.page.feed import PageFeed
from hippotune.page.login import COOKIE, Logins, Visitor

if TYPE_CHECKING:
    from hippotune.page.actions import PlanActions

ACTING = ("submit", "admin")
"""The roles that may change anything."""
_MOST_BYTES = 1 << 20

_TYPES = {"js": "text/javascript", "css": "text/css"}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Plans(Protocol):
    """The plans that there are to show."""

    async def feed(self, plan: str) -> PageFeed | None:
        """Return the feed of a plan, if there is one by this name."""

    def first(self) -> str | None:
        """Return the name of the plan to show to a person who has named none."""

    def actions(self, plan: str) -> PlanActions | None:
        """Return what can be done on a plan; None where it is only shown."""


def page_app(plans: Plans, logins: Logins) -> Starlette:
    """Make the application."""
    page = _Page(plans, logins)
    return Starlette(
        routes=[
            Route("/", page.home),
            Route("/login", page.login),
            Route("/{plan}/", page.document),
            Route("/{plan}/static/{name}", page.static),
            Route("/{plan}/snapshot", page.snapshot),
            Route("/{plan}/events", page.events),
            Route("/{plan}/trials/{row:int}", page.trial),
            Route("/{plan}/session", page.session),
            Route("/{plan}/preview", page.preview, methods=["POST"]),
            Route("/{plan}/actions", page.act, methods=["POST"]),
        ],
        exception_handlers={HTTPException: _refused, NotBuilt: _not_built},
    )


class _Page:
    def __init__(self, plans: Plans, logins: Logins) -> None:
        self._plans = plans
        self._logins = logins

    async def login(self, request: Request) -> Response:
        session = self._logins.redeem(request.query_params.get("code", ""))
        if session is None:
            raise HTTPException(
                403, "This address has been used, or the server was started again since. Ask for a new one."
            )
        plan = request.query_params.get("plan", "")
        response = RedirectResponse(f"{plan}/" if plan.isalnum() else "./", 303, dict(_HEADERS))
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, session, httponly=True, samesite="strict", secure=secure)
        return response

    async def home(self, request: Request) -> Response:
        self._check(request)
        first = self._plans.first()
        if first is None:
            raise HTTPException(404, "There is no plan to show yet.")
        return RedirectResponse(f"{first}/", 303, dict(_HEADERS))

    async def document(self, request: Request) -> Response:
        await self._feed(request)
        return HTMLResponse(asset("index.html"), headers=_HEADERS)

    async def static(self, request: Request) -> Response:
        self._check(request)
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(404, f"The page has no file {name}.")
        return Response(asset(name), media_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)

    async def snapshot(self, request: Request) -> Response:
        content = await (await self._feed(request)).snapshot()
        headers = {**_HEADERS, "content-encoding": "gzip"}
        return Response(content, media_type="application/json", headers=headers)

    async def events(self, request: Request) -> Response:
        feed = await self._feed(request)
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        return StreamingResponse(feed.follow(after), media_type="text/event-stream", headers=_HEADERS)

    async def trial(self, request: Request) -> Response:
        feed = await self._feed(request)
        try:
            content = await feed.detail(request.path_params["row"])
        except HippoError as error:
            raise HTTPException(404, str(error)) from error
        return Response(json.dumps(content), media_type="application/json", headers=_HEADERS)

    async def session(self, request: Request) -> Response:
        visitor = self._check(request)
        can_act = visitor.role in ACTING and self._plans.actions(request.path_params["plan"]) is not None
        content = {"acts": can_act, "token": self._logins.token(request.cookies)}
        return JSONResponse(content, headers=_HEADERS)

    async def preview(self, request: Request) -> Response:
        actions, _, said = await self._asked(request)
        return await _answered(actions.preview(said))

    async def act(self, request: Request) -> Response:
        actions, visitor, said = await self._asked(request)
        return await _answered(actions.act(said, visitor))

    async def _asked(self, request: Request) -> tuple[PlanActions, Visitor, dict[str, Any]]:
        """Return the answer to a request, if the page itself sent it for a person who is allowed to."""
        visitor = self._check(request)
        if not self._logins.is_own(request.cookies, request.headers):
            raise HTTPException(403, "This was not asked for by the page itself.")
        if visitor.role not in ACTING:
            raise HTTPException(403, f"The role {visitor.role} may look, and change nothing.")
        actions = self._plans.actions(request.path_params["plan"])
        if actions is None:
            raise HTTPException(409, "The plan is not being trained: there is nothing to act on.")
        body = await request.body()
        if len(body) > _MOST_BYTES:
            raise HTTPException(
                413, f"The request has {len(body):,} bytes; expected at most {_MOST_BYTES:,}."
            )
        try:
            said = json.loads(body)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise HTTPException(422, "The request is no JSON object.")
        return actions, visitor, said

    async def _feed(self, request: Request) -> PageFeed:
        self._check(request)
        plan = request.path_params["plan"]
        feed = await self._plans.feed(plan)
        if feed is None:
            raise HTTPException(404, f"There is no plan {plan} here.")
        return feed

    def _check(self, request: Request) -> Visitor:
        visitor = self._logins.visitor(request.cookies)
        if visitor is None:
            raise HTTPException(401, "Open the page by the address that was printed when it was started.")
        return visitor


async def _answered(answer: Awaitable[dict[str, Any]]) -> Response:
    try:
        return JSONResponse(await answer, headers=_HEADERS)
    except HippoError as error:
        return JSONResponse({"error": str(error)}, 422, headers=_HEADERS)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _document(error.detail, error.status_code)


async def _not_built(request: Request, error: Exception) -> Response:
    return _document(str(error), 503)


def _document(text: str, status: int) -> Response:
    return HTMLResponse(f"<!doctype html><title>Hippo</title><p>{escape(text)}</p>", status, headers=_HEADERS)
