"""The loop of a plan that is on a server: what tunings say is sent in order, what it answers is delivered.

It has the surface of `shell.loop.Loop`. A tuner hears results in the order of the plan's history: while a
group is on its way, nothing counts as known, and its answers come before the word that it is done. An answer
is delivered when it is durable. When the server was away, everything that is still open is said again, with
what was answered and not durable; what was delivered before is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from hippotune.errors import HippoError
from hippotune.plan.facts import ProofRecorded, SpanRecorded
from hippotune.protocol import events
from hippotune.protocol.events import Event, Request
from hippotune.protocol.wire import decode_fact
from hippotune.serve import messages
from hippotune.serve.client.api import AsyncApi, ServerRefused
from hippotune.serve.client.outgoing import Outgoing
from hippotune.serve.client.readings import RemoteReadings
from hippotune.serve.client.said import messages_of
from hippotune.serve.client.waiting import Pause, ServerLost
from hippotune.shell.listener import Deliver, Listener
from hippotune.study.limits import Limits
from hippotune.study.recorded import definition_of
from hippotune.tuners.base import Tuner

# What cannot go on for now is tried again after this time.
_AGAIN_SECONDS = 1.0
# How long the end of a session waits for what is not sent yet.
_CLOSE_SECONDS = 10.0


class RemoteLoop:
    """See the module. Made and used on one running event loop.

    `renew` opens the plan, begins a session and returns its address with what it says of itself.
    """

    def __init__(
        self,
        api: AsyncApi,
        readings: RemoteReadings,
        renew: Callable[[], Coroutine[Any, Any, tuple[str, messages.SessionOpened]]],
        note: Callable[[str], None],
        new_pause: Callable[[], Pause],
    ) -> None:
        self.error: BaseException | None = None
        self.proofs: tuple[ProofRecorded, ...] = ()
        self.readings = readings
        self.note = note
        self._api = api
        self._renew = renew
        self._new_pause = new_pause
        self._aio = asyncio.get_running_loop()
        self.address = ""
        self._deliver: dict[int, Deliver] = {}
        self._heard: dict[int, set[tuple[int, bool]]] = {}
        self._not_durable: list[messages.Answered] = []
        self._next_request = 0
        self._listening: list[Listener] = []
        self._on_idle: list[Callable[[], None]] = []
        self._notes_repeated = False
        self._outgoing = Outgoing()
        self._done = 1
        self._committed = -1
        self._after = 0
        self._waiting: list[tuple[messages.Prove | messages.RunDown, asyncio.Future[None]]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin a session."""
        self._begin(await self._opened())
        self._tasks = [self._aio.create_task(self._live())]

    def _begin(self, opened: messages.SessionOpened) -> None:
        self._committed = opened.committed
        self._done = 1
        self._after = 0
        self._not_durable.clear()
        self.readings.renewed(opened.beat)

    # What tunings use.

    @property
    def committed(self) -> int:
        """How far answers are durable; nothing is while a group is on its way."""
        return -1 if self._outgoing.last_group >= self._done else self._committed

    def new_request(self, deliver: Deliver) -> int:
        """Return a number for a request; its answers go to `deliver`."""
        self._next_request += 1
        self._deliver[self._next_request] = deliver
        return self._next_request

    def require(self, metrics: frozenset[str], study: str = "") -> None:
        """Say which metrics the tuner reads; the server ends the study where results lack one."""
        self.handle(events.MetricsRequired(metrics, study))

    def forget_request(self, request: int) -> None:
        """Deliver nothing more for a request."""
        self._deliver.pop(request, None)
        self._heard.pop(request, None)

    def note_repeated(self, requests: Iterable[Request]) -> None:
        """Have the server say what is trained again for the group that comes next."""
        self._notes_repeated = True

    def handle(self, event: Event) -> None:
        """Send an event."""
        said = messages_of(event, self._notes_repeated)
        if isinstance(event, events.GroupSubmitted):
            self.readings.place(event.requests)
            self._notes_repeated = False
        for message in said:
            self._outgoing.put(message)

    def has_begun(self, study: str) -> None:
        """Say that the study has asked for something and waits."""
        if not self._outgoing.said.has_begun:
            self._outgoing.put(messages.FirstGroupSent())

    def alarm(self, time: float, call: Callable[[], None]) -> None:
        """Have something called at a time of the server's clock."""
        self._aio.call_later(max(time - self.readings.now(), 0.0), call)

    def on_idle(self, call: Callable[[], None]) -> None:
        """Call `call` whenever nothing runs."""
        self._on_idle.append(call)

    def off_idle(self, call: Callable[[], None]) -> None:
        """Do not tell `call` any more."""
        self._on_idle.remove(call)

    @contextmanager
    def spans(self) -> Iterator[list[SpanRecorded]]:
        """Collect nothing: worker time is read from the facts."""
        yield []

    def tuner_begins(self, listener: Listener) -> None:
        """A tuner is at work."""
        self._listening.append(listener)
        if self.error is not None:
            listener.broken(self.error)
        self._outgoing.put(messages.TunerBegins())

    def tuner_ends(self, listener: Listener) -> None:
        """A tuner asks for nothing more."""
        if listener in self._listening:
            self._listening.remove(listener)
            self._outgoing.put(messages.TunerEnds())

    def tuning_begins(self, tuner: Tuner, limits: Limits) -> None:
        """Have the log say that a tuning begins."""
        self._outgoing.put(messages.TuningBegan(tuner.metric, tuner.mode, definition_of(tuner, limits)))

    def tuning_ends(self, outcome: str, text: str) -> None:
        """Have the log say how a tuning ended."""
        self._outgoing.put(messages.TuningEnded(outcome, text))

    @property
    def is_busy(self) -> bool:
        """Whether a tuner is at work."""
        return bool(self._listening)

    def tuner_waits(self) -> None:
        """Do nothing: time goes on by itself."""

    def tuner_goes_on(self) -> None:
        """Do nothing."""

    async def proved(self, audits: bool) -> None:
        """Wait until nothing is provisional any more."""
        await self._answered(messages.Prove(audits))

    async def wait_idle_or_tuned(self) -> None:
        """Wait until what runs has ended, or others are at work."""
        await self._answered(messages.RunDown())

    async def _answered(self, question: messages.Prove | messages.RunDown) -> None:
        if self.error is None:
            future: asyncio.Future[None] = self._aio.create_future()
            self._waiting.append((question, future))
            self._outgoing.put(question)
            await future

    # The connection.

    async def _live(self) -> None:
        """Send and receive; begin another session where the present one is lost."""
        while self.error is None:
            tasks = [self._aio.create_task(self._send()), self._aio.create_task(self._receive())]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                failed = [task.exception() for task in done]
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            error = next((each for each in failed if each is not None), None)
            if isinstance(error, _Renewed):
                if error.because:
                    self.note(error.because)
                    await asyncio.sleep(_AGAIN_SECONDS)
                await self._say_again()
            elif error is not None:
                self._give_up(error)

    async def _opened(self) -> messages.SessionOpened:
        """Begin a session, as soon as there is a server that stays for long enough."""
        with self._new_pause() as pause:
            while True:
                try:
                    self.address, opened = await self._renew()
                    return opened
                except ServerLost as error:
                    await asyncio.sleep(pause.next(error))
                except ServerRefused as error:
                    if error.status != 404:  # the plan is not open: another server has come in between
                        raise
                    await asyncio.sleep(pause.next(error))

    async def _say_again(self) -> None:
        """Begin another session and say what is open."""
        try:
            opened = await self._opened()
        except HippoError as error:
            self._give_up(error)
            return
        self._waiting = [each for each in self._waiting if not each[1].done()]
        self._outgoing.restart(len(self._listening), [question for question, _ in self._waiting])
        self._begin(opened)

    async def _send(self) -> None:
        with self._new_pause() as pause:
            while True:
                batch = await self._outgoing.batch()
                body = messages.Messages(self._outgoing.first, tuple(map(self._as_there, batch)), self._after)
                try:
                    await self._api.call("POST", f"{self.address}/messages", body)
                except ServerLost as error:
                    await asyncio.sleep(pause.next(error))
                    continue
                except ServerRefused as error:
                    raise _lost_session(error) from error
                pause.over()
                self._outgoing.sent(len(batch))

    def _as_there(self, message: messages.Message) -> messages.Message:
        if isinstance(message, messages.Limit) and message.worker_seconds is not None:
            return messages.Limit(message.at, self.readings.as_there(message.worker_seconds))
        return message

    async def _receive(self) -> None:
        with self._new_pause() as pause:
            while True:
                try:
                    async with self._api.events(f"{self.address}/items", str(self._after)) as stream:
                        async for event in stream:
                            pause.over()
                            self._take(event.kind, event.number, event.data)
                    await asyncio.sleep(pause.next(ServerLost("the server ends the stream of a session")))
                except ServerLost as error:
                    await asyncio.sleep(pause.next(error))
                except ServerRefused as error:
                    raise _lost_session(error) from error

    def _take(self, kind: str, number: str, data: str) -> None:
        """Take in one event, as a whole."""
        if kind == "pulse":
            self.readings.beats(msgspec.json.decode(data, type=messages.PulseBody))
            if self.readings.is_out:
                for call in list(self._on_idle):
                    call()
            return
        for item in messages.read_items(data):
            self._take_item(item)
        self._after = int(number)
        waiting, self._not_durable = self._not_durable, []
        for answer in waiting:
            if answer.order <= self._committed:
                self._tell(answer)
            else:
                self._not_durable.append(answer)
        for listener in list(self._listening):
            listener.facts_committed()

    def _take_item(self, item: messages.Item) -> None:
        match item:
            case messages.Answered():
                self._not_durable.append(item)
            case messages.Committed(order):
                self._committed = max(self._committed, order)
            case messages.Done(number):
                self._done = max(self._done, number)
            case messages.Noted(text):
                self.note(text)
            case messages.Broken(error, waits):
                if waits:
                    raise _Renewed(f"the server cannot go on, and is tried again: {_in_short(error.text)}")
                self._give_up(error.made())
            case messages.RanDown(counters, proofs):
                facts = map(decode_fact, proofs)
                self.proofs = tuple(fact for fact in facts if isinstance(fact, ProofRecorded))
                self.readings.counted(counters)
                self._settle(messages.RunDown())
            case messages.Proved(audits):
                self._settle(messages.Prove(audits))

    def _tell(self, item: messages.Answered) -> None:
        if item.final:
            self._outgoing.said.answered(item.request)
        if (deliver := self._deliver.get(item.request)) is None:
            return
        steps = self._heard.setdefault(item.request, set())
        if (item.step, item.final) in steps:
            return
        steps.add((item.step, item.final))
        if item.final:
            del self._deliver[item.request]
            del self._heard[item.request]
        deliver(item.made())

    def _settle(self, asked: messages.Prove | messages.RunDown) -> None:
        """The first of equal questions is answered; who asked it may wait no more."""
        for index, (question, future) in enumerate(self._waiting):
            if question == asked:
                del self._waiting[index]
                if not future.done():
                    future.set_result(None)
                return

    def _give_up(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
            for listener in list(self._listening):
                listener.broken(error)
            while self._waiting:
                self._settle(self._waiting[0][0])

    async def close(self) -> None:
        """End the session, when all that was said is sent."""
        # A plan that cannot go on still takes in how the study ended; a lost connection takes nothing.
        if self._outgoing and not any(task.done() for task in self._tasks):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._outgoing.all_sent.wait(), _CLOSE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(HippoError):
            await self._api.call("DELETE", self.address)


class _Renewed(Exception):
    """The session is lost: another one is to begin."""

    def __init__(self, because: str = "") -> None:
        super().__init__(because)
        self.because = because


def _in_short(text: str) -> str:
    """Return the sentence that begins an error, without the traceback of what it came of."""
    lines = text.strip().splitlines() or [""]
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]


def _lost_session(error: ServerRefused) -> Exception:
    """Return what follows from a refusal: a session that is not known is begun anew."""
    return _Renewed() if error.status in (404, 409, 410) else error
