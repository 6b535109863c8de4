"""The pages of a server's plans, below /page. Users get in by addresses that work once, made for a token."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from starlette.applications import Starlette
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from hippotune.errors import InvalidInput
from hippotune.page.app import page_app
from hippotune.page.login import Logins, Visitor, kept_key
from hippotune.page.plans import HomePlans
from hippotune.serve.guard import reply
from hippotune.serve.hub import Hub, NotHere
from hippotune.serve.routes import Route
from hippotune.serve.studies import Studies, owned
from hippotune.shell.runtime import Runtime
from hippotune.store.catalog import open_store

_MOUNTED = "/page"


class Login(Struct):
    """An address below the server's that lets one browser in, once."""

    path: str


class Pages:
    """See the module. `hosts` are the names that the server is called by."""

    def __init__(self, hub: Hub, studies: Studies, hosts: Sequence[str]) -> None:
        self._hub = hub
        self._studies = studies
        self._logins = Logins(partial(kept_key, hub.folder))
        opened = partial(open_store, hub.folder, hub.store)
        self._plans = HomePlans(opened, hub.folder, self._running, self._stop, self._check)
        app: Starlette = page_app(self._plans, self._logins)
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*hosts])
        self.mount = Mount(_MOUNTED, app)

    def table(self) -> list[Route]:
        """Return what is served besides pages."""
        return [Route("POST", "/logins", "read", self.login, answer=Login)]

    async def login(self, request: Request) -> Response:
        """Make an address that lets one browser in, with the role of the one who asks."""
        user = request.state.user
        return reply(Login(self.address(Visitor(user.name, user.role))))

    def address(self, visitor: Visitor) -> str:
        """Return an address below the server's that lets a visitor in, once."""
        return f"{_MOUNTED}/login?code={self._logins.code(visitor)}"

    async def close_unused(self) -> None:
        """Forget plans that nobody has looked at since this was last called."""
        await self._plans.close_unused()

    async def close(self) -> None:
        """Let all visitors go, and the store."""
        await self._plans.close()

    def _running(self, plan: str) -> Runtime | None:
        open_plans = (each.runtime for each in self._hub.plans if each.key == plan)
        return next((runtime for runtime in open_plans if not runtime.closed), None)

    async def _stop(self, study: str, by: str) -> None:
        """End a study as `hippo stop` does."""
        try:
            record = self._studies.get(study).record
        except NotHere:
            raise InvalidInput(
                f"study {study!r} is not tuned by this server but by its client: stop it there"
            ) from None
        await asyncio.to_thread(self._studies.stop, study)
        await self._hub.stop_study(study, record.user, by)

    def _check(self, visitor: Visitor, study: str) -> None:
        """Let users act for their own studies, and admins for all."""
        try:
            record = self._studies.get(study).record
        except NotHere:
            return  # one whose tuner is elsewhere: any who may submit may ask for more of it
        if visitor.role != "admin" and not owned(record, visitor.name):
            raise InvalidInput(f"study {study!r} belongs to {record.user}; {visitor.name} may look at it")
