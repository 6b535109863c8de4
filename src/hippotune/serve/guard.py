"""What every request passes: host, origin, version, user, role, rate and size; and what is said of it after.

A refusal is an answer with a status and words, as JSON: ``{"kind": ..., "text": ...}``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from hippotune.errors import HippoError, InvalidInput, StoreError
from hippotune.serve.blobs import CodeRefused
from hippotune.serve.health import Health
from hippotune.serve.hub import NotHere, NotNow
from hippotune.serve.messages import ErrorBody, encode
from hippotune.serve.tokens import Role, Tokens, User
from hippotune.serve.turns import CAME, RequestTurns
from hippotune.serve.version import HEADER, MINIMUM, VERSION
from hippotune.shell.loop_thread import PlanClosed
from hippotune.store.files import says_disk_full

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]

_log = logging.getLogger("hippotune.serve")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")


class Refused(HippoError):
    """A request that is not met: with a status of HTTP, and words."""

    def __init__(self, status: int, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = retry_after


@dataclass
class UserLimits:
    """How much one user may ask for: requests a second on average, how many at once, and bytes of one.

    And how many sessions may be open, and studies be tuned, at the same time.
    """

    rate: float = 2000.0
    burst: float = 4000.0
    body_bytes: int = 16 << 20
    code_bytes: int = 64 << 20
    sessions: int = 1000
    studies: int = 100


@dataclass
class _Bucket:
    left: float
    at: float = field(default_factory=time.monotonic)


class Guard:
    """See the module."""

    def __init__(self, tokens: Tokens, health: Health, hosts: tuple[str, ...], limits: UserLimits) -> None:
        self.limits = limits
        self.tokens = tokens
        self._health = health
        self._hosts = {*_LOOPBACK, *hosts}
        self._buckets: dict[str, _Bucket] = {}
        self.turns = RequestTurns()

    def around(self, name: str, role: Role, handler: Handler) -> Handler:
        """Return a handler that lets only those pass who may."""

        async def guarded(request: Request) -> Response:
            user = User("", "none")
            try:
                self._check_source(request)
                self._check_version(request)
                user = self._user(request, role)
                self._check_rate(user)
                request.state.user = user
                response = await handler(request)
                if isinstance(response, StreamingResponse):
                    response.body_iterator = self.turns.each(
                        cast("AsyncGenerator[Any]", response.body_iterator)
                    )
            except ClientDisconnect:
                response = Response(status_code=400)
            except Exception as error:
                response = refusal(error)
            seconds = time.monotonic() - request.scope[CAME]
            self._health.served(name, request.method, response.status_code, seconds)
            if role != "none":
                _log.info(
                    "%s %s %d %.1f ms %s",
                    request.method,
                    request.scope["raw_path"].decode("latin-1"),  # as it was sent: on one line
                    response.status_code,
                    seconds * 1000,
                    user.name or "-",
                )
            return response

        return guarded

    def _check_source(self, request: Request) -> None:
        host = request.headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name not in self._hosts:
            raise Refused(421, f"the server is not known as {name!r}; hippo serve --allow-host allows a name")
        origin = request.headers.get("origin")
        if origin is not None and origin.split("://")[-1] != host:
            raise Refused(403, f"requests from pages of {origin} are refused")

    def _check_version(self, request: Request) -> None:
        given = request.headers.get(HEADER, str(VERSION))
        if not given.isdigit() or not int(given) >= MINIMUM:
            raise Refused(
                426,
                f"the client speaks version {given} of the API, and this server {MINIMUM} to {VERSION}: "
                "install a newer hippotune on the client",
            )

    def _user(self, request: Request, role: Role) -> User:
        if role == "none":
            return User("", "none")
        user = self.tokens.user(request.headers.get("authorization"))
        if user is None:
            raise Refused(401, "the request has no token that is valid here: set HIPPO_TOKEN")
        if not user.may(role):
            raise Refused(403, f"{user.name or 'the user'} has the role {user.role}; this needs {role}")
        return user

    def _check_rate(self, user: User) -> None:
        now, limits = time.monotonic(), self.limits
        bucket = self._buckets.setdefault(user.name, _Bucket(limits.burst))
        bucket.left = min(bucket.left + (now - bucket.at) * limits.rate, limits.burst)
        bucket.at = now
        if bucket.left < 1:
            raise Refused(429, f"more than {limits.rate:g} requests a second; slow down", 1 / limits.rate)
        bucket.left -= 1


async def read_bytes(request: Request, most: int) -> bytes:
    """Read the body of a request, up to a size."""
    said = request.headers.get("content-length", "0")
    parts: list[bytes] = []
    size = int(said) if said.isdigit() else 0
    if size <= most:
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > most:
                break
            parts.append(part)
    if size > most:
        raise Refused(413, f"the request has more than {most:,} bytes; send less at once")
    return b"".join(parts)


async def read_body(request: Request, kind: type[T], most: int) -> T:
    """Read the body of a request as JSON."""
    try:
        return msgspec.json.decode(await read_bytes(request, most), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(422, f"the body is not what is expected here: {error}") from None


def reply(value: Any, status: int = 200) -> Response:
    """Answer with a value as JSON."""
    return Response(encode(value), status, media_type="application/json")


def refusal(error: Exception) -> Response:
    """Answer with what went wrong."""
    status = _status(error)
    if status == 500:
        _log.error("a request failed", exc_info=error)
    response = reply(ErrorBody.of(error), status)
    if isinstance(error, Refused) and error.retry_after is not None:
        response.headers["retry-after"] = f"{max(error.retry_after, 1):.0f}"
    return response


def _status(error: Exception) -> int:
    if isinstance(error, Refused):
        return error.status
    if says_disk_full(error):
        return 507
    for kind, status in (
        (CodeRefused, 403),
        (NotHere, 404),
        (NotNow, 503),
        (PlanClosed, 404),
        (InvalidInput, 422),
        (StoreError, 503),
        (HippoError, 422),
        (RecursionError, 422),
    ):
        if isinstance(error, kind):
            return status
    return 500
