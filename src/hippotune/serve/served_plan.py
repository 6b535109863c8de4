"""A plan that is open on a server, its facts for those who follow, and the sessions of tuners on it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from hippotune.errors import InvalidInput
from hippotune.executors.base import Parcel
from hippotune.identity.key import Identity
from hippotune.plan.facts import Fact, FailureCleared, Position, StudyStopped
from hippotune.protocol.events import ActionTaken, OwnerSet
from hippotune.protocol.wire import encode_fact
from hippotune.serve.definition import Definition
from hippotune.serve.inbox import Inbox
from hippotune.serve.messages import SessionOpened
from hippotune.serve.outbox import Outbox
from hippotune.serve.session import TunerSession
from hippotune.shell.loop_thread import PlanClosed, is_being_cancelled
from hippotune.shell.notes import REMEMBERED, Notes
from hippotune.shell.runtime import Runtime

T = TypeVar("T")

# How many facts are kept at hand for those who follow; the others are read from the store.
_KEPT_FACTS = 20_000


@dataclass
class ServedPlan:
    """A plan that is open; `code` are the files that studies brought, by their digests."""

    identity: Identity
    runtime: Runtime
    parcel: Parcel
    definition: Definition
    feed: Outbox
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    code: set[str | None] = field(default_factory=set)
    sessions: dict[str, TunerSession] = field(default_factory=dict)
    idle_since: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.inbox = Inbox(self.runtime.post)
        self.incarnation = self.runtime.store.incarnation

    @property
    def key(self) -> str:
        """What the plan is found by."""
        return self.identity.key.digest

    def publish(self, first: int, facts: Sequence[Fact]) -> None:
        """Pass on facts that are durable; old ones are in the store."""
        last = self.feed.last
        new = [encode_fact(fact) for number, fact in enumerate(facts, first) if number > last]
        self.feed.put(*new)
        self.feed.heard(last + len(new) - _KEPT_FACTS)

    def clear(self, positions: Iterable[Position]) -> None:
        """Have what failed tried again when it is next asked for. On the engine's thread."""
        loop = self.runtime.loop
        for position in positions:
            fact = FailureCleared(self.runtime.plan.order + 1, position, loop.readings.now())
            loop.handle(ActionTaken(fact))

    def noted(self, text: str) -> None:
        """Tell all sessions something; those that come later are told too."""
        if text not in self.notes:
            self.notes.append(text)
            for session in list(self.sessions.values()):
                session.noted(text)

    async def ask(self, question: Callable[[], T]) -> T:
        """Call a function on the engine's thread."""

        async def asked() -> T:
            return question()

        return await self._on_engine(asked())

    async def _on_engine(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the engine's thread. Raises `PlanClosed` where that ends meanwhile."""
        try:
            return await asyncio.wrap_future(self.runtime.spawn(coroutine))
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            raise PlanClosed("the plan was closed meanwhile") from None

    # Sessions.

    async def begin_session(self, id: str, study: str, user: str) -> SessionOpened:
        """Begin a session, or go on with the one that has begun."""
        outbox = Outbox(asyncio.get_running_loop())

        def begun() -> SessionOpened:
            if id not in self.sessions:
                others = {each.user for each in self.sessions.values() if each.study == study} - {user, ""}
                if others:
                    raise InvalidInput(f"study {study!r} belongs to {min(others)}: give yours another name")
                self.runtime.loop.handle(OwnerSet(study, user))
                self.sessions[id] = TunerSession(id, study, user, self.runtime, self.inbox, outbox)
            session = self.sessions[id]
            if session.user != user:
                raise InvalidInput(f"session {id} belongs to another user")
            return SessionOpened(session.committed, session.beat(), self.incarnation, self.feed.last)

        return await self.ask(begun)

    async def end_session(self, session: TunerSession) -> None:
        """End a session: what it left open is withdrawn, and what it said is durable."""
        self.sessions.pop(session.id, None)
        self.idle_since = time.monotonic()
        if not self.runtime.closed:
            await self.ask(partial(self._end, session))
            await self._on_engine(self.runtime.loop.log.durable())

    def _end(self, session: TunerSession) -> None:
        session.end(is_last=all(each.study != session.study for each in list(self.sessions.values())))

    async def stop_study(self, study: str, user: str, by: str) -> None:
        """End the sessions of a study that was stopped, and have the log say so."""
        for session in list(self.sessions.values()):
            if (session.study, session.user) == (study, user):
                await self.ask(partial(self._record_stop, study, by))
                await self.end_session(session)

    def _record_stop(self, study: str, by: str) -> None:
        loop = self.runtime.loop
        loop.handle(ActionTaken(StudyStopped(study, loop.readings.now(), by)))

    def end_streams(self) -> None:
        """Have all streams end when they have said what there is."""
        self.feed.close()
        for session in list(self.sessions.values()):
            session.outbox.close()


class SessionNotes(Notes):
    """Notes that are passed on to the sessions of a plan."""

    def __init__(self, pass_on: Callable[[str], None]) -> None:
        super().__init__()
        self._pass_on = pass_on

    def tell(self, text: str) -> None:
        """Have a text read by clients."""
        self._pass_on(text)
