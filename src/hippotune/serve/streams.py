"""Server-sent events: what is numbered can be asked for again after the last number that was heard."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from time import monotonic

from starlette.requests import Request
from starlette.responses import StreamingResponse

from hippotune.serve.guard import Refused
from hippotune.serve.outbox import Outbox
from hippotune.serve.routes import Parameter

_KEEP_ALIVE_SECONDS = 10.0
_SHORTEST_BEAT = 0.1
_LONGEST_BEAT = 3600.0
PULSES = Parameter("pulses", float, "seconds between pulses; 0.1 at least")
# How many items one event has at most: the event loop does other things in between.
MOST_AT_ONCE = 500


def pause_of(request: Request, usual: float) -> float:
    """Return how many seconds there are to be between pulses."""
    text = request.query_params.get(PULSES.name, str(usual))
    try:
        pause = float(text)
    except ValueError:
        pause = -1.0
    if not pause >= 0:
        raise Refused(422, f"pulses is {text!r}; expected seconds, at least 0")
    return min(pause, _LONGEST_BEAT)


def event(data: bytes, number: str = "", kind: str = "") -> bytes:
    """Write one event."""
    head = (f"event: {kind}\n" if kind else "") + (f"id: {number}\n" if number else "")
    return head.encode() + b"data: " + data + b"\n\n"


def streamed(events: AsyncIterator[bytes]) -> StreamingResponse:
    """Answer with events as they come."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def following(
    outbox: Outbox,
    after: int,
    beat: Callable[[], Awaitable[bytes]] | None = None,
    pause: Callable[[], float] = lambda: 1.0,
) -> AsyncGenerator[bytes]:
    """Yield what an outbox has after a number, and what it gets, until it is closed; pulses in between."""
    beaten = said = monotonic()
    yield b": hello\n\n"
    while True:
        every = max(pause(), _SHORTEST_BEAT)
        last, items = outbox.after(after, MOST_AT_ONCE)
        if items:
            yield event(b"[" + b",".join(items) + b"]", str(last))
            after, said = last, monotonic()
        if outbox.is_closed and outbox.last <= after:
            return
        now = monotonic()
        if beat is not None and now - beaten >= every:
            yield event(await beat(), kind="pulse")
            beaten = said = now
        elif now - said >= _KEEP_ALIVE_SECONDS:
            yield b": still here\n\n"
            said = now
        await outbox.wait(after, every if beat is not None else _KEEP_ALIVE_SECONDS)
