"""Requests to a server: what it refuses is raised as the error that it names.

A server that cannot be reached, or that asks for patience, is waited for.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from hippotune.errors import HippoError, InvalidInput
from hippotune.serve.client.waiting import Outage, Pause, ServerLost
from hippotune.serve.messages import ErrorBody
from hippotune.serve.version import HEADER, VERSION

WAITED_STATUSES = (429, 502, 503, 504, 507)
_PATIENCE_SECONDS = 600.0
_TIMEOUT = httpx.Timeout(30.0, read=300.0)
_STREAM_TIMEOUT = httpx.Timeout(30.0, read=60.0)
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None)


class ServerRefused(HippoError):
    """A server does not do what is asked; `status` is that of HTTP."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def checked_url(url: str) -> str:
    """Return the address of a server."""
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidInput(f"url is {url!r}; expected the address of a server, such as http://host:8477")
    return url.rstrip("/")


class Api:
    """One server. `token` is what HIPPO_TOKEN says, unless it is given.

    A server with this very `certificate`, as PEM, is believed under any name.
    """

    def __init__(self, url: str, token: str | None = None, certificate: str | None = None) -> None:
        self.url = checked_url(url)
        self.outage = Outage(self.url)
        token = token or os.environ.get("HIPPO_TOKEN")
        self._headers = {HEADER: str(VERSION), **({"authorization": f"Bearer {token}"} if token else {})}
        self._verify = _trusted(self.url) if certificate is None else _pinned(certificate)
        self._client = httpx.Client(
            base_url=self.url, headers=self._headers, timeout=_TIMEOUT, verify=self._verify
        )

    @property
    def is_private(self) -> bool:
        """Whether what is sent cannot be changed on its way: on this machine, or by TLS."""
        parts = urlsplit(self.url)
        return parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1")

    def new_pause(self) -> Pause:
        """Return what says how long to wait for this server, and tells a person so."""
        return Pause(_PATIENCE_SECONDS, self.outage)

    def reach(self) -> None:
        """Raise `ServerLost` where nothing answers at the address; what it answers does not matter."""
        try:
            self._client.get("/healthz")
        except httpx.TransportError as error:
            raise _lost(self.url, error) from error

    def call(self, method: str, path: str, value: Any = None, kind: Any = None) -> Any:
        """Make a request, waiting for a server that is away; return what is answered."""
        return self._waiting(lambda: self.call_once(method, path, value, kind))

    def _waiting(self, ask: Callable[[], Any]) -> Any:
        with self.new_pause() as pause:
            while True:
                try:
                    return ask()
                except ServerLost as error:
                    time.sleep(pause.next(error))

    def call_once(self, method: str, path: str, value: Any = None, kind: Any = None) -> Any:
        """Make a request once."""
        try:
            return _read(self._client.request(method, path, **_body(value)), kind)
        except httpx.TransportError as error:
            raise _lost(self.url, error) from error

    def download(self, path: str, value: Any, file: Path) -> None:
        """Make a request, waiting for a server that is away, and write what is answered to a file."""
        self._waiting(lambda: self._download_once(path, value, file))

    def _download_once(self, path: str, value: Any, file: Path) -> None:
        try:
            with self._client.stream("POST", path, **_body(value)) as response, file.open("wb") as written:
                if response.status_code >= 400:
                    response.read()
                    _read(response, None)
                for part in response.iter_bytes():
                    written.write(part)
        except httpx.TransportError as error:
            raise _lost(self.url, error) from error

    def events(self, path: str, after: str) -> Iterator[Event]:
        """Follow a stream of events after the last that was heard, to its end."""
        headers = {"last-event-id": after} if after else {}
        try:
            with self._client.stream("GET", path, headers=headers, timeout=_STREAM_TIMEOUT) as response:
                if response.status_code >= 400:
                    response.read()
                    _read(response, None)
                reader = EventReader()
                for line in response.iter_lines():
                    if (event := reader.take(line)) is not None:
                        yield event
        except (httpx.TransportError, httpx.StreamError) as error:
            raise _lost(self.url, error) from error

    def asynchronous(self) -> AsyncApi:
        """Return the same for an event loop."""
        return AsyncApi(self.url, self._headers, self._verify)

    def close(self) -> None:
        """Close connections."""
        self._client.close()


class AsyncApi:
    """One server, on an event loop."""

    def __init__(self, url: str, headers: Mapping[str, str], verify: ssl.SSLContext) -> None:
        self._url = url
        self._client = httpx.AsyncClient(
            base_url=url, headers=dict(headers), timeout=_TIMEOUT, limits=_LIMITS, verify=verify
        )

    async def call(self, method: str, path: str, value: Any = None, kind: Any = None) -> Any:
        """Make a request once."""
        try:
            return _read(await self._client.request(method, path, **_body(value)), kind)
        except httpx.TransportError as error:
            raise _lost(self._url, error) from error

    @asynccontextmanager
    async def events(self, path: str, after: str) -> AsyncIterator[AsyncIterator[Event]]:
        """Follow a stream of events after the last that was heard."""
        headers = {"last-event-id": after} if after else {}
        try:
            async with self._client.stream("GET", path, headers=headers, timeout=_STREAM_TIMEOUT) as response:
                if response.status_code >= 400:
                    await response.aread()
                    _read(response, None)
                yield _events(response.aiter_lines())
        except (httpx.TransportError, httpx.StreamError) as error:
            raise _lost(self._url, error) from error

    async def close(self) -> None:
        """Close connections."""
        await self._client.aclose()


class Event(msgspec.Struct):
    """One event of a stream."""

    data: str
    number: str
    kind: str


class EventReader:
    """Puts server-sent events together from lines; one that is cut off is none."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def take(self, line: str) -> Event | None:
        """Take in a line; return the event that it ends."""
        if line:
            name, _, value = line.partition(":")
            self._said[name] = value.removeprefix(" ")
            return None
        said, self._said = self._said, {}
        return Event(said["data"], said.get("id", ""), said.get("event", "")) if "data" in said else None


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    reader = EventReader()
    async for line in lines:
        if (event := reader.take(line)) is not None:
            yield event


def _trusted(url: str) -> ssl.SSLContext:
    """Return a context that trusts whom this machine trusts. Without TLS, there is no need to read that."""
    is_needed = urlsplit(url).scheme == "https"
    return httpx.create_ssl_context() if is_needed else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _pinned(certificate: str) -> ssl.SSLContext:
    """Return a context that trusts this one certificate, whether an authority has signed it or not."""
    context = ssl.create_default_context(cadata=certificate)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = False
    return context


def _body(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, bytes):
        return {"content": value, "headers": {"content-type": "application/octet-stream"}}
    return {"content": msgspec.json.encode(value), "headers": {"content-type": "application/json"}}


def _read(response: httpx.Response, kind: Any) -> Any:
    if response.status_code < 400:
        return None if kind is None else msgspec.json.decode(response.content, type=kind)
    try:
        failure = msgspec.json.decode(response.content, type=ErrorBody)
    except msgspec.DecodeError:
        failure = ErrorBody("HippoError", response.text[:200] or "no words")
    if response.status_code in WAITED_STATUSES:
        raise ServerLost(f"the server at {response.url.host} asks to wait: {failure.text}", failure.text)
    error = failure.made()
    if response.status_code == 422 and type(error) is not HippoError:
        raise error
    raise ServerRefused(f"{failure.text} (status {response.status_code})", response.status_code)


def _lost(url: str, error: Exception) -> ServerLost:
    return ServerLost(
        f"the server at {url} cannot be reached: {type(error).__name__}: {error}. Check that it runs (hippo "
        "serve), and that the address is right",
        str(error) or type(error).__name__,
    )
