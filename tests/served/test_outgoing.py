"""A client that closes waits until the server has everything that was said, in whichever session."""

from __future__ import annotations

import asyncio

from hippotune.serve import messages
from hippotune.serve.client.outgoing import Outgoing


async def sent() -> Outgoing:
    """Return what has said that a tuner begins, and has sent it."""
    outgoing = Outgoing()
    outgoing.put(messages.TunerBegins())
    outgoing.sent(len(await outgoing.batch()))
    return outgoing


def test_what_a_new_session_says_again_is_not_sent_yet() -> None:
    async def restarted() -> None:
        outgoing = await sent()
        assert outgoing.all_sent.is_set()
        outgoing.restart(tuners=1, questions=())
        assert not outgoing.all_sent.is_set()
        outgoing.sent(len(await outgoing.batch()))
        assert outgoing.all_sent.is_set()

    asyncio.run(restarted())


def test_a_new_session_with_nothing_to_say_again_has_sent_all() -> None:
    async def restarted() -> None:
        outgoing = Outgoing()
        outgoing.put(messages.TunerBegins())
        outgoing.restart(tuners=0, questions=())
        assert not outgoing
        assert outgoing.all_sent.is_set()

    asyncio.run(restarted())
