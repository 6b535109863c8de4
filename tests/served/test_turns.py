"""Who comes when: messages of sessions, and requests that begin."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from hippotune.serve import inbox as inboxes
from hippotune.serve import turns
from hippotune.serve.inbox import Inbox
from hippotune.serve.turns import RequestTurns


class Reader:
    """Notes which of its messages is handled."""

    def __init__(self, name: str, messages: int, handled: list[str]) -> None:
        self._name = name
        self._left = list(range(messages))
        self._handled = handled

    def handle_next(self) -> bool:
        if self._left:
            self._handled.append(f"{self._name}{self._left.pop(0)}")
        return bool(self._left)


def test_sessions_take_turns_message_by_message() -> None:
    posted: list[Callable[[], None]] = []
    handled: list[str] = []
    inbox = Inbox(posted.append)
    for name, messages in (("a", 3), ("b", 2), ("c", 1)):
        inbox.put(Reader(name, messages, handled))
    while posted:
        posted.pop(0)()
    assert handled == ["a0", "b0", "c0", "a1", "b1", "a2"]


def test_a_turn_that_is_over_goes_on_after_what_came_meanwhile() -> None:
    posted: list[Callable[[], None]] = []
    handled: list[str] = []
    now = 0.0
    inbox = Inbox(posted.append, clock=lambda: now)

    class Slow(Reader):
        def handle_next(self) -> bool:
            nonlocal now
            now += 2 * inboxes._TURN_SECONDS
            return super().handle_next()

    inbox.put(Slow("a", 2, handled))
    posted.append(lambda: handled.append("another's"))
    while posted:
        posted.pop(0)()
    assert handled == ["a0", "another's", "a1"]


def test_requests_that_come_at_once_begin_in_several_rounds_of_the_event_loop_in_their_order() -> None:
    rounds: list[int] = []
    begun: list[int] = []
    gone = 2 * turns._AT_ONCE

    async def main() -> None:
        beginning, count = RequestTurns(), 0

        def tick() -> None:
            nonlocal count
            count += 1
            asyncio.get_running_loop().call_soon(tick)

        async def request(number: int) -> None:
            await beginning.wait()
            rounds.append(count)
            begun.append(number)

        tick()
        requests = [asyncio.create_task(request(number)) for number in range(5 * turns._AT_ONCE)]
        await asyncio.sleep(0)
        requests[gone].cancel()  # and keeps no other waiting
        await asyncio.gather(*requests, return_exceptions=True)
        await asyncio.sleep(0)
        await asyncio.wait_for(request(-1), 60)  # and there are turns again afterwards

    asyncio.run(main())
    assert begun == [number for number in range(5 * turns._AT_ONCE) if number != gone] + [-1]
    assert max(Counter(rounds).values()) == turns._AT_ONCE
