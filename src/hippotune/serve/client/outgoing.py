"""Messages on their way to a server: numbered from 1 on in each session, and kept until they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from hippotune.serve import messages
from hippotune.serve.client.said import MOST_REQUESTS, Said


class Outgoing:
    """See the module. `first` is the number of the first that is not sent, `last_group` of the last group."""

    def __init__(self) -> None:
        self.said = Said()
        self.first = 1
        self.last_group = 0
        self._messages: list[messages.Message] = []
        self._has_news = asyncio.Event()
        self.all_sent = asyncio.Event()

    def put(self, message: messages.Message) -> None:
        """Say something."""
        self.said.add(message)
        self._messages.append(message)
        if isinstance(message, messages.Submit):
            self.last_group = self.first + len(self._messages) - 1
        self.all_sent.clear()
        self._has_news.set()

    def restart(self, tuners: int, questions: Iterable[messages.Message]) -> None:
        """Say again, in a new session, what is still so: tuners are at work, and have open questions."""
        self._messages = self.said.again(tuners, questions)
        self.first = 1
        groups = [
            number for number, each in enumerate(self._messages, 1) if isinstance(each, messages.Submit)
        ]
        self.last_group = groups[-1] if groups else 0
        if self._messages:
            self.all_sent.clear()
        else:
            self.all_sent.set()
        self._has_news.set()

    async def batch(self) -> list[messages.Message]:
        """Wait for messages, and return those that are sent together."""
        while not self._messages:
            await self._has_news.wait()
            self._has_news.clear()
        size = 0
        for count, message in enumerate(self._messages):
            size += len(message.requests) if isinstance(message, messages.Submit) else 1
            if count and size > MOST_REQUESTS:
                return self._messages[:count]
        return list(self._messages)

    def sent(self, count: int) -> None:
        """The server has taken the first of the messages."""
        self.first += count
        del self._messages[:count]
        if not self._messages:
            self.all_sent.set()

    def __bool__(self) -> bool:
        return bool(self._messages)
