"""What a tuning needs of the loop that trains its plan, in this process or behind a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from hippotune.engine.deadlines import Limit
from hippotune.plan.facts import SpanRecorded
from hippotune.plan.node import Node
from hippotune.protocol.events import Event, Request
from hippotune.sequences.config import Config
from hippotune.shell.listener import Deliver, Listener
from hippotune.shell.pulse import Pulse
from hippotune.shell.readings import Counters, Pace


class PlanReadings(Protocol):
    """What a tuning may look at; see `shell.readings`."""

    def now(self) -> float: ...  # noqa: D102

    @property
    def workers(self) -> int: ...  # noqa: D102

    @property
    def suitable(self) -> Callable[[Config], frozenset[int]] | None: ...  # noqa: D102

    def find(self, config: Config, step: int, isolation_key: str) -> Node: ...  # noqa: D102

    def unshared(self, config: Config, step: int) -> int: ...  # noqa: D102

    def spent(self, study: str) -> float: ...  # noqa: D102

    def out_of(self, study: str) -> Limit | None: ...  # noqa: D102

    def counters(self) -> Counters: ...  # noqa: D102

    def pace(self) -> Pace: ...  # noqa: D102

    def pulse(self, since: float, asks: Iterable[tuple[Node, int]] | None) -> Pulse: ...  # noqa: D102


class PlanLoop(Protocol):
    """The surface of `shell.loop.Loop` that tunings use; everything is called on one event loop."""

    error: BaseException | None

    @property
    def committed(self) -> int:
        """The place in the plan's history up to which answers are durable, and all of them are known."""

    @property
    def readings(self) -> PlanReadings:
        """What may be looked at."""

    @property
    def note(self) -> Callable[[str], None]:
        """Let the user read something."""

    def new_request(self, deliver: Deliver) -> int: ...  # noqa: D102

    def require(self, metrics: frozenset[str], study: str = "") -> None: ...  # noqa: D102

    def forget_request(self, request: int) -> None: ...  # noqa: D102

    def handle(self, event: Event) -> None: ...  # noqa: D102

    def note_repeated(self, requests: Iterable[Request]) -> None: ...  # noqa: D102

    def has_begun(self, study: str) -> None: ...  # noqa: D102

    def alarm(self, time: float, call: Callable[[], None]) -> None: ...  # noqa: D102

    def on_idle(self, call: Callable[[], None]) -> None: ...  # noqa: D102

    def off_idle(self, call: Callable[[], None]) -> None: ...  # noqa: D102

    def spans(self) -> AbstractContextManager[list[SpanRecorded]]: ...  # noqa: D102

    def tuner_begins(self, listener: Listener) -> None: ...  # noqa: D102

    def tuner_ends(self, listener: Listener) -> None: ...  # noqa: D102

    def tuner_waits(self) -> None: ...  # noqa: D102

    def tuner_goes_on(self) -> None: ...  # noqa: D102

    async def proved(self, audits: bool) -> None: ...  # noqa: D102

    async def wait_idle_or_tuned(self) -> None: ...  # noqa: D102
