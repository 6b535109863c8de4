"""A plan that is open on a server, as studies of this process see it; it has the surface of `Runtime`.

Tuners of this process run on an event loop of its own.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from hippotune.protocol.events import WidthChanged
from hippotune.scheduling.policy import WidthPolicy
from hippotune.sequences.config import Config
from hippotune.serve.bodies import ConfigStep, SessionStart, Steps
from hippotune.serve.client.api import Api, AsyncApi, ServerRefused
from hippotune.serve.client.loop import RemoteLoop
from hippotune.serve.client.readings import RemoteReadings
from hippotune.serve.definition import Definition, PlanOpened
from hippotune.serve.messages import SessionOpened
from hippotune.shell.loop_thread import LoopThread
from hippotune.shell.notes import Notes

T = TypeVar("T")


class RemoteRuntime(LoopThread):
    """See the module. `close` ends the session, and nothing else: what others need is trained on."""

    def __init__(self, api: Api, definition: Definition, opened: PlanOpened) -> None:
        super().__init__("hippo-client")
        self.opened = opened
        self.notes = Notes()
        self.closed = False
        self.loop: RemoteLoop
        self.first_fact = 0
        self._has_begun = False
        self.aim: tuple[str, str] | None = None
        self._api = api
        self._definition = definition
        self._async: AsyncApi
        self._closing = threading.RLock()

    @property
    def key(self) -> str:
        """What the plan is found by."""
        return self.opened.key

    async def _start(self) -> None:
        """Begin a session."""
        self._async = self._api.asynchronous()
        readings = RemoteReadings(self._unshared)
        self.loop = RemoteLoop(self._async, readings, self._renew, self.notes.tell, self._api.new_pause)
        await self.loop.start()

    async def _renew(self) -> tuple[str, SessionOpened]:
        """Open the plan, where it is not open any more, and begin a session."""
        if self._has_begun:
            self.opened = await self._async.call("POST", "/plans", self._definition, PlanOpened)
        self._has_begun = True
        address = f"/plans/{self.key}/sessions/{uuid.uuid4().hex}"
        metric, mode = self.aim or (None, None)
        start = SessionStart(self._definition.study, metric, mode)
        session: SessionOpened = await self._async.call("PUT", address, start, SessionOpened)
        self.first_fact = self.first_fact or session.facts
        return address, session

    def _unshared(self, config: Config, step: int) -> int:
        wanted = ConfigStep(config.to_json(), step)
        found: Steps = self.while_open(
            lambda: self._api.call("POST", f"/plans/{self.key}/unshared", wanted, Steps)
        )
        return found.steps

    def while_open(self, ask: Callable[[], T]) -> T:
        """Ask something of the plan; a server that has come since, and has not opened it, opens it first."""
        try:
            return ask()
        except ServerRefused as error:
            if error.status != 404:
                raise
            self._api.call("POST", "/plans", self._definition)
            return ask()

    @contextmanager
    def widened(self, policy: WidthPolicy) -> Iterator[None]:
        """Let a policy choose widths for a while."""
        self.loop.handle(WidthChanged(policy))
        try:
            yield
        finally:
            self.loop.handle(WidthChanged(None))

    @property
    def busy(self) -> bool:
        """Whether a tuner of this process is at work."""
        return not self.closed and self.loop.is_busy

    def halt(self) -> None:
        """End the session: what only this study waits for stops at the end of its step."""
        self.close()

    def close(self) -> None:
        """End the session. May be called twice."""
        with self._closing:
            if not self.closed:
                with suppress(Exception):
                    self.run(self._close())
                self.closed = True
                self._stop()

    async def _close(self) -> None:
        if hasattr(self, "loop"):
            await self.loop.close()
        await self._async.close()
