"""One tuner in another process, as the loop that trains its plan sees it.

Messages are handled in the order of their numbers, each once. What they lead to is put into the outbox: the
answers of a group come before the word that it is done, so that a tuner which waits for that word hears
results in the order of the plan's history, as in one process. Everything here runs on the engine's thread,
but for `accept`: messages are taken in on the thread of HTTP, and handled soon after.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from hippotune.errors import CheckpointError, HippoError, StoreError
from hippotune.plan.facts import StudyBegan, StudyEnded
from hippotune.plan.node import Node
from hippotune.protocol import events
from hippotune.protocol.commands import Answer
from hippotune.protocol.wire import encode_fact
from hippotune.scheduling.policy import WidthPolicy
from hippotune.sequences.config import Config
from hippotune.serve import messages
from hippotune.serve.beats import beat_of, counted
from hippotune.serve.inbox import Inbox
from hippotune.serve.outbox import Outbox
from hippotune.shell.runtime import Runtime
from hippotune.store.files import says_disk_full

_log = logging.getLogger("hippotune.serve")

# Counting the steps that trials still take walks all of them: at most this part of the time goes into it.
_SHARE_OF_TIME = 0.02


class TunerSession:
    """See the module. `study` is whose tuner it is, `user` who brought it.

    `expected` is the number of the message that comes next.
    """

    def __init__(
        self, id: str, study: str, user: str, runtime: Runtime, inbox: Inbox, outbox: Outbox
    ) -> None:
        self.id = id
        self.study = study
        self.user = user
        self.outbox = outbox
        self.streams = 0
        self.left_at = time.monotonic()
        self._runtime = runtime
        self._loop = runtime.loop
        self.expected = 1
        self._handled = 0
        self._accepted: deque[messages.Message] = deque()
        self._inbox = inbox
        self._requests: dict[int, int] = {}
        self._asked: dict[int, tuple[Node, int]] = {}
        self._told = self._loop.committed
        self._highest = 0
        self._policy: WidthPolicy | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._began = self._loop.readings.now()
        self._counted_at = self._counting_took = 0.0
        self._steps: tuple[int | None, int | None] = (None, None)
        self._is_over = False
        self._at_work = 0
        self.has_limits = False

    # From the client.

    def accept(self, batch: messages.Messages) -> None:
        """Take in the messages of a batch that were not taken in before."""
        self.outbox.heard(batch.heard)
        new = batch.messages[max(self.expected - batch.first, 0) :]
        self.expected += len(new)
        self._accepted.extend(new)
        self._inbox.put(self)

    @property
    def waiting(self) -> int:
        """How many messages wait to be handled."""
        return len(self._accepted)

    def handle_next(self) -> bool:
        """Handle the next message; return whether there are more."""
        if self._is_over:
            return False
        if self._accepted:
            self._handled += 1
            try:
                self._handle(self._accepted.popleft())
            except HippoError as error:
                self.broken(error)
            except Exception as error:
                _log.error("a message of study %r failed", self.study, exc_info=error)
                self.broken(HippoError(f"the server failed: {type(error).__name__}: {error}"))
        if not self._accepted:
            self._put(messages.Done(self._handled + 1))
        return bool(self._accepted)

    def _handle(self, message: messages.Message) -> None:
        loop = self._loop
        match message:
            case messages.Submit():
                self._submit(message)
            case messages.Withdraw(number):
                self._withdraw(number)
            case messages.Rate(worths):
                known = {
                    self._requests[n]: float(worth) for n, worth in worths.items() if n in self._requests
                }
                loop.handle(events.WorthChanged(known))
            case messages.Rank(best):
                kept = tuple((Config.from_json(config), step, key) for config, step, key in best)
                loop.handle(events.BestChanged(self.study, kept))
            case messages.Require(metrics):
                loop.require(frozenset(metrics), self.study)
            case messages.Foresee(configs, step):
                loop.handle(events.ConfigsForeseen(tuple(map(Config.from_json, configs)), step))
            case messages.ForeseeBranches(config, steps):
                loop.handle(events.BranchesForeseen(Config.from_json(config), steps))
            case messages.Limit(at, worker_seconds):
                self.has_limits = at is not None or worker_seconds is not None
                loop.handle(events.DeadlineSet(self.study, at, worker_seconds))
            case messages.Widen(policy):
                self._widen(None if policy is None else policy.made())
            case messages.TuningBegan():
                self._tune(message)
            case messages.TuningEnded(outcome, text):
                self._tuned(outcome, text)
            case messages.TunerBegins():
                self._at_work += 1
                if self._at_work == 1:
                    loop.tuner_begins(self)
                    self.facts_committed()
            case messages.TunerEnds():
                self._at_work = max(self._at_work - 1, 0)
                if not self._at_work:
                    loop.tuner_ends(self)
            case messages.FirstGroupSent():
                loop.has_begun(self.study)
            case messages.Prove(audits):
                self._when(partial(loop.proved, audits), partial(messages.Proved, audits))
            case messages.RunDown():
                self._when(loop.wait_idle_or_tuned, self._ran_down)

    def _submit(self, group: messages.Submit) -> None:
        suitable = self._loop.readings.suitable
        requests = []
        for ask in group.requests:
            config = Config.from_json(ask.config)
            if suitable is not None:
                suitable(config)  # raises where no slot would do
            number = self._requests[ask.id] = self._loop.new_request(partial(self._deliver, ask.id))
            requests.append(
                events.Request(
                    number,
                    self.study,
                    ask.trial,
                    config,
                    ask.step,
                    ask.reports,
                    ask.isolation_key,
                    ask.keep,
                )
            )
        if group.repeated:
            self._loop.note_repeated(requests)
        self._loop.handle(events.GroupSubmitted(tuple(requests)))
        for request in requests:
            node = self._loop.readings.find(request.config, request.step, request.isolation_key)
            known = self._asked.get(request.trial)
            if known is None or known[1] < request.step:
                self._asked[request.trial] = node, request.step

    def _withdraw(self, request: int) -> None:
        number = self._requests.pop(request, None)
        if number is not None:
            self._loop.forget_request(number)
            self._loop.handle(events.RequestWithdrawn(number))

    def _widen(self, policy: WidthPolicy | None) -> None:
        if self._policy is not None:
            self._runtime.narrow(self._policy)
        self._policy = policy
        if policy is not None:
            self._runtime.widen(policy)

    def _ran_down(self) -> messages.RanDown:
        proofs = tuple(encode_fact(proof).decode() for proof in self._runtime.plan.proofs)
        return messages.RanDown(counted(self._loop.readings.counters()), proofs)

    def _tune(self, tune: messages.TuningBegan) -> None:
        """Record that a tuning begins, unless it goes on after the server, or the client, was away."""
        plan, told = self._runtime.plan, (tune.metric, tune.mode, tune.definition)
        began, ended = plan.tunings.get(self.study, (None, None))
        if began is None or ended is not None or told != (began.metric, began.mode, began.definition):
            now = self._loop.readings.now()
            fact = StudyBegan(self.study, plan.next_tuning(self.study), now, *told)
            self._loop.handle(events.ActionTaken(fact))

    def _tuned(self, outcome: str, text: str) -> None:
        began, ended = self._runtime.plan.tunings.get(self.study, (None, None))
        if began is not None and ended is None:
            fact = StudyEnded(self.study, began.tuning, self._loop.readings.now(), outcome, text)
            self._loop.handle(events.ActionTaken(fact))

    def _when(self, wait: Callable[[], Coroutine[Any, Any, None]], say: Callable[[], messages.Item]) -> None:
        """Say something when a coroutine has ended."""

        async def waited() -> None:
            await wait()
            self._put(say())

        task = asyncio.get_running_loop().create_task(waited())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # From the loop.

    def _deliver(self, request: int, answer: Answer) -> None:
        answered = messages.encode(messages.Answered.of(request, answer))
        self.outbox.put(answered, later=answer.order > self._told)  # it counts when it is durable
        self._highest = max(self._highest, answer.order)
        self.facts_committed()

    def facts_committed(self) -> None:
        """Say how far answers are durable, where one of this session waits for that."""
        if self._told < min(self._highest, self._loop.committed):
            self._told = self._loop.committed
            self._put(messages.Committed(self._told))

    def broken(self, error: BaseException) -> None:
        """Say that the plan cannot go on."""
        waits = isinstance(error, StoreError | CheckpointError) or says_disk_full(error)
        self._put(messages.Broken(messages.ErrorBody.of(error), waits))

    def noted(self, text: str) -> None:
        """Say something to a person."""
        self._put(messages.Noted(text))

    def _put(self, item: messages.Item) -> None:
        self.outbox.put(messages.encode(item))

    # What a session shows, and its end.

    @property
    def committed(self) -> int:
        """How far answers are durable that this session was told of."""
        return self._told

    def beat(self) -> messages.PulseBody:
        """Return how training goes."""
        now = time.monotonic()
        asks = None
        if self._counting_took <= _SHARE_OF_TIME * (now - self._counted_at):
            asks = list(self._asked.values())
        pulse = self._loop.readings.pulse(self._began, asks)
        if not self._asked or self._loop.error is not None:  # what it will ask for may have to be proved yet
            pulse = replace(pulse, is_proved=False)
        if asks is not None:
            self._steps = pulse.unique, pulse.left
            self._counted_at = time.monotonic()
            self._counting_took = self._counted_at - now
        return beat_of(self._loop.readings, self.study, pulse, self._steps)

    def end(self, is_last: bool) -> None:
        """Handle what was taken in, and ask for nothing more. May be called twice.

        What the study requires and protects goes with the last of its sessions.
        """
        if self._is_over:
            return
        while self.handle_next():
            pass
        self._is_over = True
        for request in list(self._requests):
            self._withdraw(request)
        self._widen(None)
        if self.has_limits:
            self._loop.handle(events.DeadlineSet(self.study))
        if is_last:
            self._loop.handle(events.StudyClosed(self.study))
        self._loop.has_begun(self.study)
        for task in self._tasks:
            task.cancel()
        self._loop.tuner_ends(self)
        self.outbox.close()
