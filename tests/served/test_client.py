"""A client whose server comes and goes while it begins."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from hippotune.errors import HippoError
from hippotune.serve.client.api import ServerRefused
from hippotune.serve.client.loop import RemoteLoop
from hippotune.serve.client.waiting import Outage, Pause, ServerLost
from hippotune.serve.messages import SessionOpened

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
