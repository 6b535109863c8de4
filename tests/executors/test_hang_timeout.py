"""When a worker counts as hung."""

from __future__ import annotations

import math
import queue
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.executors.local.hang_timeout import HangTimeout
from hippotune.executors.local.slot import Slot
from hippotune.plan.facts import Checkpoint
from hippotune.protocol.events import (
    CheckpointSaved,
    Event,
    LeaseFinished,
    Progressed,
    WorkerJoined,
    WorkerLost,
)

seconds = st.floats(0.001, 1e5)


def having_seen(hang_timeout: HangTimeout, paces: list[float]) -> HangTimeout:
    for pace in paces:
        hang_timeout.observe(Progressed(lease=0, step=10, steps=10, seconds=10 * pace))
    return hang_timeout


def test_there_is_no_limit_before_the_first_step_is_finished() -> None:
    assert HangTimeout().limit(closing=False) == math.inf


def test_a_worker_that_only_has_saves_to_finish_is_not_waited_for_for_ever() -> None:
    assert HangTimeout().limit(closing=True) == 600


def test_slow_steps_are_waited_for_longer() -> None:
    assert having_seen(HangTimeout(), [20.0, 30.0, 1000.0]).limit(closing=False) == 50 * 30


def test_quick_steps_are_no_reason_for_haste() -> None:
    assert having_seen(HangTimeout(), [0.001] * 3).limit(closing=False) == 600


@given(limit=seconds | st.just(math.inf), paces=st.lists(seconds))
def test_what_is_given_holds_whatever_is_seen(limit: float, paces: list[float]) -> None:
    assert having_seen(HangTimeout(limit), paces).limit(closing=False) == limit


@given(paces=st.lists(seconds))
def test_the_limit_is_never_below_the_shortest(paces: list[float]) -> None:
    hang_timeout = having_seen(HangTimeout(), paces)
    assert hang_timeout.limit(closing=False) >= hang_timeout.shortest


class Scripted:
    """A process that says what it was told to, and then nothing until it is ended."""

    def __init__(self, *events: Event) -> None:
        self._said: queue.SimpleQueue[list[Event] | None] = queue.SimpleQueue()
        self._said.put([WorkerJoined(0)])
        self._said.put(list(events))

    def send_first(self, message: bytes) -> None: ...

    def send(self, message: bytes) -> None: ...

    def receive(self, timeout: float) -> list[Event] | None:
        try:
            said = self._said.get(timeout=timeout)
        except queue.Empty:
            return None
        if said is None:
            raise EOFError
        return said

    def kill(self) -> None:
        self._said.put(None)

    wait_closed = kill

    def reap(self, cause: str | None = None) -> str:
        return cause or "ended"


FINISHED = LeaseFinished(7, 4, saving=(7, 4))
SAVED = CheckpointSaved(7, 4, Checkpoint("name", 1, ""))


@pytest.mark.parametrize("said", [[FINISHED], [SAVED, FINISHED], [FINISHED, SAVED]])
def test_a_checkpoint_that_is_never_finished_is_noticed_also_when_its_lease_is_over(said: list[Any]) -> None:
    heard: queue.SimpleQueue[Event] = queue.SimpleQueue()
    slots: list[Slot] = []
    slots.append(Slot(0, lambda _: Scripted(*said), b"", heard.put, HangTimeout(0.1), slots))  # type: ignore[arg-type, return-value]
    slots[0].start()
    assert [heard.get(timeout=300) for _ in range(1 + len(said))] == [WorkerJoined(0), *said]
    if SAVED in said:
        assert slots[0]._busy_since is None
    else:
        lost = heard.get(timeout=300)
        assert isinstance(lost, WorkerLost)
        assert lost.kind == "hung"
    slots[0].abandon()
    slots[0].join()


def test_a_worker_that_is_done_before_its_order_was_noted_has_nothing_to_do() -> None:
    heard: queue.SimpleQueue[Event] = queue.SimpleQueue()

    class Prompt(Scripted):
        def send(self, message: bytes) -> None:
            self._said.put([LeaseFinished(7, 4)])
            assert heard.get(timeout=300) == LeaseFinished(7, 4)

    slots: list[Slot] = []
    slots.append(Slot(0, lambda _: Prompt(), b"", heard.put, HangTimeout(300), slots))  # type: ignore[arg-type, return-value]
    slots[0].start()
    assert heard.get(timeout=300) == WorkerJoined(0)
    assert slots[0].deliver(b"", patience=1)
    assert slots[0]._busy_since is None
    slots[0].abandon()
    slots[0].join()
