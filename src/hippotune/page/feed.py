"""What followers of one plan get: a snapshot, then what came after it, and pulses. Each is made once for all.

Deltas are cut a few times a second, and snapshots end where a delta ends: a follower that holds a snapshot
goes on with the first delta after it. A follower that was away gets the deltas that it has missed, as long as
they are kept; otherwise it is told to take a new snapshot. One that reads too slowly is let go, and comes
back by itself.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

from hippotune.errors import InvalidInput
from hippotune.page.columns import Columns
from hippotune.page.source import Source
from hippotune.sequences.config import Config

_log = logging.getLogger("hippotune.page")
_KEPT_DELTAS = 512
_MOST_WAITING = 256
_QUIET_SECONDS = 10.0
_IDLE_SECONDS = 2.0

Message = bytes


class PageFeed:
    """The facts of one plan for any number of followers, on one event loop.

    `every` is the pause between deltas.
    """

    def __init__(self, source: Source, every: float = 0.1) -> None:
        self._source = source
        self._every = every
        self._columns = Columns()
        self._incarnation = ""
        self._about: dict[str, Any] = {}
        self._number = 0
        self._recent: deque[tuple[int, Message]] = deque(maxlen=_KEPT_DELTAS)
        self._snapshot: tuple[int, bytes] | None = None
        self._pulse: Message | None = None
        self._last_pulse: dict[str, Any] | None = None
        self._queues: set[asyncio.Queue[Message | None]] = set()
        self._working = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def trial(self, row: int) -> tuple[str, int, Config]:
        """Return a trial by its row: its study, its number and its config."""
        if not 0 <= row < len(self._columns.asked):
            raise InvalidInput(f"there is no trial in row {row}; expected one that the page shows")
        return self._columns.asked[row]

    async def detail(self, row: int) -> dict[str, Any]:
        """Return what a trial's training has logged and printed."""
        self.trial(row)  # which says so where there is none
        return await asyncio.to_thread(self._source.detail, *self._columns.reached[row])

    def next_number(self, study: str) -> int:
        """Return a number that no trial of a study has."""
        return 1 + max((number for of, number, _ in self._columns.asked if of == study), default=-1)

    @property
    def followers(self) -> int:
        """How many follow now."""
        return len(self._queues)

    async def snapshot(self) -> bytes:
        """Return everything so far, as JSON, compressed by gzip."""
        await self._begin()
        async with self._working:
            if self._snapshot is None or self._snapshot[0] != self._number:
                content = {"about": self._about, "columns": self._columns.since(), **self._place()}
                self._snapshot = self._number, await asyncio.to_thread(_compressed, content)
            return self._snapshot[1]

    async def follow(self, after: str) -> AsyncIterator[Message]:
        """Yield events from a place on, as a stream of server-sent events; a place is as `id` of an event."""
        await self._begin()
        queue: asyncio.Queue[Message | None] = asyncio.Queue(_MOST_WAITING)
        missed = self._missed(after)
        if missed is None:
            yield _event("reset", self._place())
            return
        self._queues.add(queue)
        self._wanted.set()
        if self._is_closed:
            self._end(queue)
        try:
            for missing in missed:
                yield missing
            if self._pulse is not None:
                yield self._pulse
            while (message := await _next(queue)) is not None:
                yield message
        finally:
            self._queues.discard(queue)

    def _missed(self, after: str) -> Sequence[Message] | None:
        incarnation, _, text = after.rpartition(":")
        if incarnation != self._incarnation or not text.isdecimal():
            return None
        number = int(text)
        if number == self._number:
            return ()
        if all(start != number for start, _ in self._recent):
            return None
        return [message for start, message in self._recent if start >= number]

    def _place(self) -> dict[str, Any]:
        return {"incarnation": self._incarnation, "number": self._number}

    async def _begin(self) -> None:
        async with self._working:
            if self._task is None:
                await self._look()
                self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Send what is left, say that nothing more will come, and let all followers go."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            with suppress(Exception):  # where the store is out of reach, what was told has to do
                async with self._working:
                    await self._look()
        self._is_closed = True
        for queue in list(self._queues):
            self._end(queue)

    def _end(self, queue: asyncio.Queue[Message | None]) -> None:
        _put(queue, _event("end", self._place()))
        _end_stream(queue)

    async def _run(self) -> None:
        while True:
            if self._queues:
                await asyncio.sleep(self._every)
            else:
                self._wanted.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_IDLE_SECONDS):
                        await self._wanted.wait()
            try:
                async with self._working:
                    await self._look()
                if self._queues:
                    await self._look_closer()
            except Exception:  # a store that is out of reach for a while ends no page
                _log.exception("the page could not be brought up to date; it is tried again")
                await asyncio.sleep(_IDLE_SECONDS)

    async def _look(self) -> None:
        """Take in what is new, and tell it."""
        mark, before = self._columns.mark(), self._number
        about, incarnation, number = await asyncio.shield(asyncio.to_thread(self._take))
        if incarnation != self._incarnation:
            if self._incarnation:
                self._tell(_event("reset", {"incarnation": incarnation, "number": number}))
            self._recent.clear()
            self._snapshot = None
        elif number > before:
            content = {"after": before, "columns": self._columns.since(mark), "number": number}
            message = _event("delta", content, f"{incarnation}:{number}")
            self._recent.append((before, message))
            self._tell(message)
        self._incarnation, self._number = incarnation, number
        if about != self._about:
            self._about = about
            self._tell(_event("about", about))

    async def _look_closer(self) -> None:
        """Take the pulse, for those who follow."""
        pulse = await asyncio.to_thread(self._source.pulse)
        if pulse is not None or self._last_pulse is not None:
            self._tell_pulse(pulse)

    def _take(self) -> tuple[dict[str, Any], str, int]:
        source = self._source
        incarnation = source.incarnation()
        if self._incarnation and incarnation != self._incarnation:
            self._columns, self._number = Columns(), 0
        facts = list(source.facts(self._number))  # all or none: what cannot be read now is read again
        self._columns.take(fact for _, fact in facts)
        number = facts[-1][0] if facts else self._number
        about = source.about() if not self._about or number != self._number else self._about
        return about, incarnation, number

    def _tell_pulse(self, pulse: dict[str, Any] | None) -> None:
        if pulse is None and not self._queues:
            return
        is_same = (
            pulse is not None and self._last_pulse is not None and _still(pulse) == _still(self._last_pulse)
        )
        if not is_same or (pulse or {}).get("leases"):
            self._pulse = _event("pulse", pulse)
            self._tell(self._pulse)
        self._last_pulse = pulse

    def _tell(self, message: Message) -> None:
        for queue in list(self._queues):
            if not _put(queue, message):
                self._queues.discard(queue)
                _end_stream(queue)


def _put(queue: asyncio.Queue[Message | None], message: Message | None) -> bool:
    try:
        queue.put_nowait(message)
    except asyncio.QueueFull:
        return False
    return True


def _end_stream(queue: asyncio.Queue[Message | None]) -> None:
    """End a stream; where the follower has not read all, it comes back for the rest."""
    if not _put(queue, None):
        queue.get_nowait()
        queue.put_nowait(None)


async def _next(queue: asyncio.Queue[Message | None]) -> Message | None:
    """Return the next message; now and then a comment, so that a connection that is gone is noticed."""
    try:
        async with asyncio.timeout(_QUIET_SECONDS):
            return await queue.get()
    except TimeoutError:
        return b": still here\n\n"


def _still(pulse: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in pulse.items() if name != "now"}


def _event(kind: str, content: object, place: str | None = None) -> Message:
    number = "" if place is None else f"id: {place}\n"
    return f"event: {kind}\n{number}data: {_json(content)}\n\n".encode()


def _compressed(content: object) -> bytes:
    return gzip.compress(_json(content).encode(), 5)


def _json(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))
