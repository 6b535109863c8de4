"""An executor driven by hand, without an engine: commands in, events out."""

from __future__ import annotations

import asyncio
import itertools
import queue
import select
import socket
import struct
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from executors.noisy import Noisy
from hippotune.executors.base import Executor, Job
from hippotune.plan.facts import Checkpoint
from hippotune.protocol.commands import RunLease, Segment, UpdateLease
from hippotune.protocol.events import (
    CheckpointSaved,
    Event,
    LeaseFailed,
    LeaseFinished,
    MetricsReported,
    NumbersLogged,
    Progressed,
)
from hippotune.sequences.config import Config
from waiting import SECONDS

NEVER = 10**9
CONFIG: dict[str, Any] = {"rate": 0.1, "fault": "none", "hold": NEVER}

E = TypeVar("E")


class Gate:
    """Where a `Noisy` trainer with a `hold` stops before each step, until it is let through."""

    def __init__(self, address: Path) -> None:
        self.address = str(address)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.address)
        self._socket.listen()
        self._waiting: socket.socket | None = None

    def wait_for(self, step: int) -> None:
        """Let the trainer through until it is about to train on from `step`, and leave it waiting there."""
        while True:
            reached = self._accept(SECONDS)
            assert reached is not None, f"the trainer never came to step {step}"
            if reached >= step:
                return
            self.open()

    def open(self) -> None:
        """Let the trainer through, if it is waiting."""
        if self._waiting is None:
            self._accept(0)
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None

    @property
    def waiting_process(self) -> int:
        """The number of the process that waits."""
        assert self._waiting is not None
        credentials = self._waiting.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        process: int = struct.unpack("3i", credentials)[0]
        return process

    def _accept(self, timeout: float) -> int | None:
        if not select.select([self._socket], [], [], timeout)[0]:
            return None
        self._waiting, _ = self._socket.accept()
        said = self._waiting.recv(100)
        return int(said) if said else -1  # one that was killed before it spoke

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self.open()
            self._socket.close()


class Rig:
    """One executor at work on one job."""

    def __init__(
        self,
        executor: Executor,
        home: Path,
        trainer: type = Noisy,
        settings: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] = CONFIG,
        packing: int = 1,
        together: int = 1,
        rehearses: bool = False,
    ) -> None:
        self.executor = executor
        self._config = config
        self.checkpoints = home / "checkpoints"
        self.gate = Gate(home / "gate")
        self._numbers = itertools.count()
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._unread: list[Event] = []
        settings = {"gate": self.gate.address, **(settings or {})}
        job = Job(trainer, settings, 7, self.checkpoints, packing, study="rig", rehearses=rehearses)
        asyncio.run(executor.start(job, self._inbox.put))
        executor.demand({0: NEVER}, together)

    def run(
        self,
        end: int,
        *,
        start: int = 0,
        worker: int = 0,
        saves: Collection[int] = (),
        evaluations: Collection[int] = (),
        source: Checkpoint | None = None,
        warm: bool = False,
        required: Collection[str] = (),
        probe: bool = False,
        peers: Collection[int] = (),
        branch: int | None = None,
        patience: int = 1,
        fresh: bool = False,
        **config: Any,
    ) -> int:
        """Start a lease; return its number, which is also that of its node, or nodes."""
        lease = next(self._numbers)
        ends = [end] if branch is None else [branch, end]
        self.executor.carry_out(
            RunLease(
                lease=lease,
                worker=worker,
                config=Config({**self._config, **config}),
                start=start,
                end=end,
                segments=tuple(map(Segment, [lease] * 2, [start, *ends], ends)),
                saves=frozenset(saves),
                evaluations=frozenset(evaluations),
                source=source,
                warm=warm,
                required=frozenset(required),
                probe=probe,
                peers=tuple(peers),
                width=Fraction(1 + len(peers)),
                patience=patience,
                fresh=fresh,
                study="rig",
                trial=7,
            )
        )
        return lease

    def update(
        self,
        lease: int,
        end: int,
        *,
        worker: int = 0,
        saves: Collection[int] = (),
        evaluations: Collection[int] = (),
    ) -> None:
        """Change a lease."""
        self.executor.carry_out(UpdateLease(lease, worker, end, frozenset(saves), frozenset(evaluations)))

    def wait(self, kind: type[E], **fields: Any) -> E:
        """Return the first event of a kind that has these fields."""
        event = self._take(
            lambda event: (
                isinstance(event, kind) and all(getattr(event, name) == fields[name] for name in fields)
            ),
            f"{kind.__name__} with {fields}",
        )
        assert isinstance(event, kind)
        return event

    def story(self, lease: int) -> list[Event]:
        """Return what is said of a lease, from its start to its end, but for its saves."""
        story: list[Event] = []
        while not story or not isinstance(story[-1], LeaseFinished | LeaseFailed):
            story.append(
                self._take(
                    lambda event: _is_of(event, lease) and not isinstance(event, CheckpointSaved),
                    f"the end of lease {lease} after {story}",
                )
            )
        return story

    def metrics(self, lease: int) -> dict[int, dict[str, float]]:
        """Return what a lease has measured by its end, without what differs between processes."""
        story = self.story(lease)
        assert isinstance(story[-1], LeaseFinished), story[-1]
        return {
            event.step: {name: value for name, value in event.metrics.items() if name != "pid"}
            for event in story
            if isinstance(event, MetricsReported)
        }

    def saved(self, lease: int, step: int) -> Checkpoint:
        """Wait for a checkpoint."""
        return self.wait(CheckpointSaved, lease=lease, step=step).checkpoint

    def unread_of(self, lease: int) -> list[Event]:
        """Return what was heard of a lease on the way and not waited for."""
        return [event for event in self._unread if _is_of(event, lease)]

    def close(self) -> None:
        """End the executor, and let nobody wait at the gate."""
        asyncio.run(self.executor.close())
        self.gate.close()

    def _take(self, wanted: Callable[[Event], bool], what: str) -> Event:
        """Take the first wanted event out of what was said; the gate is open while nothing is."""
        deadline = time.monotonic() + SECONDS
        seen = 0
        while True:
            for index in range(seen, len(self._unread)):
                if wanted(self._unread[index]):
                    return self._unread.pop(index)
            seen = len(self._unread)
            self._hear(deadline, what)

    def _hear(self, deadline: float, what: str) -> None:
        self.executor.advance()
        while self._inbox.empty():
            try:
                self._unread.append(self._inbox.get(timeout=0.002))
                return
            except queue.Empty:
                self.gate.open()
            assert time.monotonic() < deadline, f"waited for {what}; there was only {self._unread}"
        self._unread.append(self._inbox.get())


def logged_in(story: Sequence[Event]) -> dict[int, dict[str, float]]:
    """Return what was logged by step, and see that no step came twice or too late."""
    found: dict[int, dict[str, float]] = {}
    for event in story:
        if isinstance(event, NumbersLogged):
            for place, step in enumerate(event.steps):
                assert step > max(found, default=0), "a step was logged twice, or out of order"
                row = {name: column[place] for name, column in event.numbers.items()}
                found[step] = {name: number for name, number in row.items() if number is not None}
        elif isinstance(event, Progressed | MetricsReported | CheckpointSaved | LeaseFinished):
            assert event.step <= max(found, default=event.step), f"{event} came before its numbers"
    return found


def _is_of(event: Event, lease: int) -> bool:
    return getattr(event, "lease", None) == lease
