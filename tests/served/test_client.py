"""A client whose server comes and goes while it begins."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hippotune.errors import HippoError
from hippotune.serve import messages
from hippotune.serve.client.api import ServerRefused
from hippotune.serve.client.loop import RemoteLoop
from hippotune.serve.client.waiting import Outage, Pause, ServerLost
from hippotune.serve.messages import SessionOpened
from waiting import SECONDS

OPENED = cast("SessionOpened", object())


def begun(*answers: Exception | SessionOpened) -> tuple[SessionOpened, int]:
    """Begin a session with a server that answers so; return what came of it and the answers left."""
    left = list(answers)

    async def renew() -> tuple[str, SessionOpened]:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return "/plans/key/sessions/id", answer

    async def main() -> SessionOpened:
        anything = cast("Any", None)
        outage = Outage("http://127.0.0.1:1")
        return await RemoteLoop(anything, anything, renew, print, lambda: Pause(60.0, outage))._opened()

    return asyncio.run(main()), len(left)


def test_a_client_begins_when_there_is_a_server_that_stays() -> None:
    lost, not_open = ServerLost("it is away"), ServerRefused("the plan is not open", 404)
    assert begun(lost, not_open, lost, OPENED) == (OPENED, 0)


def test_a_client_that_is_refused_does_not_insist() -> None:
    with pytest.raises(HippoError, match="another user"):
        begun(ServerRefused("the session is another user's", 403), OPENED)


def test_questions_at_the_same_time_are_answered_each_and_asked_again_of_another_server() -> None:
    async def renew() -> tuple[str, SessionOpened]:
        return "/plans/key/sessions/id", cast("SessionOpened", SimpleNamespace(committed=0, beat=None))

    async def main() -> None:
        readings = cast("Any", SimpleNamespace(renewed=lambda beat: None))
        outage = Outage("http://127.0.0.1:1")
        loop = RemoteLoop(cast("Any", None), readings, renew, print, lambda: Pause(60.0, outage))
        first, left, last = (asyncio.create_task(loop.proved(audits)) for audits in (True, True, False))
        ran_down = asyncio.create_task(loop.wait_idle_or_tuned())
        await asyncio.sleep(0)
        loop._take_item(messages.Proved(audits=True))
        await asyncio.wait_for(first, SECONDS)
        assert not last.done(), "it asks for less, and is answered by itself"
        left.cancel()
        await asyncio.sleep(0)
        await loop._say_again()
        assert await loop._outgoing.batch() == [messages.Prove(False), messages.RunDown()]
        loop._take_item(messages.Proved(audits=False))
        await asyncio.wait_for(last, SECONDS)
        assert not ran_down.done()
        loop._give_up(HippoError("the plan cannot go on"))
        await asyncio.wait_for(ran_down, SECONDS)

    asyncio.run(main())
