"""The log of a plan's facts while it grows: what is being written, what is durable, and who follows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from hippotune.plan.facts import Fact
from hippotune.shell.writer import FactWriter, Then
from hippotune.store.base import Written

Published = Callable[[int, Sequence[Fact]], None]
"""Takes facts that are durable, and the number of the first of them in the log."""


class FactLog:
    """See the module. To be used on the event loop that its writer was made for.

    `committed` is the place in the plan's history up to which facts are durable, `under_way` how many writes
    are not done.
    """

    def __init__(self, writer: FactWriter, committed: int, note: Callable[[str], None]) -> None:
        self.committed = committed
        self.under_way = 0
        self._writer = writer
        self._note = note
        self._followers: list[Published] = []

    def write(self, facts: Sequence[Fact], order: int, then: Then) -> None:
        """Write facts that lead up to a place in the history; `then` hears None afterwards, or the error."""
        self.under_way += 1

        def written(error: BaseException | None) -> None:
            self.under_way -= 1
            if error is None:
                self.committed = max(self.committed, order)
            then(error)

        self._writer.submit(facts, written)

    async def durable(self) -> None:
        """Wait until every fact that there is by now is committed, or cannot be."""
        written = asyncio.Event()
        self._writer.submit((), lambda _: written.set())
        await written.wait()

    def follow(self, published: Published) -> Callable[[], None]:
        """Have a function told, on the event loop, of all facts from now on, in order, once each.

        They are durable by then, and no tuner has heard of them yet. What came before is in the store: read
        it after this call, and pass over what comes twice by its number. Returns what ends it.
        """
        self._followers.append(published)
        self._writer.published = self._publish
        return partial(self._forget, published)

    def _forget(self, published: Published) -> None:
        if published in self._followers:
            self._followers.remove(published)
        if not self._followers:
            self._writer.published = None

    def _publish(self, written: Written) -> None:
        for published in list(self._followers):
            try:
                published(*written)
            except Exception as error:  # one that fails keeps neither others nor training from going on
                self._forget(published)
                self._note(f"a follower of the log failed and hears no more: {type(error).__name__}: {error}")
