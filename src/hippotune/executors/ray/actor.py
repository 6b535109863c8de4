"""The actor that holds a slot of a Ray cluster.

It trains nothing itself: it keeps a worker process on its node, or several where leases are packed, and these
are the very program that trains on one machine. So results are the same, user code has a main thread and an
environment of its own, and where it crashes, hangs or runs out of memory, a process is replaced and not an
actor.

It is an async actor. Orders are calls; what there is to say is streamed by one call that lasts as long as the
actor. The processes die with the actor, and the actor with its driver.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import hippotune as hippo
from hippotune import scratch
from hippotune.executors import lease_log
from hippotune.executors.base import Parcel
from hippotune.executors.local.hang_timeout import HangTimeout
from hippotune.executors.local.process import WorkerProcess
from hippotune.executors.local.slot import Slot
from hippotune.executors.ray.addresses import interface_of, reserved_port
from hippotune.executors.ray.cluster import load_ray
from hippotune.protocol.events import (
    CheckpointSaved,
    Event,
    LeaseStarted,
    MetricsReported,
    NumbersLogged,
    Progressed,
    SaveFailed,
    WorkerJoined,
    WorkerNoted,
)

# Every message wakes the driver. Messages of a busy worker wait a little, to go together.
_PATIENT = (
    LeaseStarted,
    Progressed,
    NumbersLogged,
    WorkerNoted,
    MetricsReported,
    CheckpointSaved,
    SaveFailed,
)
_LINGER_SECONDS = 0.005
_STDOUT = 1

# What is ordered, for which worker; with it goes the message of a command and the patience with what it
# begins, or why a worker is to end.
ActorCommand = tuple[Literal["deliver", "end", "close"], int, bytes, int]


@dataclass(frozen=True, slots=True)
class ActorSpec:
    """What all actors of an executor have to know."""

    parcel: Parcel
    checkpoints: Path
    in_bucket: bool
    marker: str
    environment: Mapping[str, str]
    hang_after: float | None
    version: str

    def log_of(self, worker: int) -> Path:
        """Return where a worker's prints go: next to the checkpoints, where this node sees the driver's."""
        folder = self.checkpoints if self._sees_driver() else scratch.place()
        return folder / lease_log.FOLDER / f"worker-{worker}.log"

    def _sees_driver(self) -> bool:
        return (self.checkpoints / self.marker).is_file()


@dataclass(frozen=True, slots=True)
class Ready:
    """The actor is up, on this node. Others who train a lease with its workers meet them at `meeting`."""

    host: str
    address: str
    node: str
    meeting: str

    def __str__(self) -> str:
        return f"node {self.host} ({self.address})"


@dataclass(frozen=True, slots=True)
class Failed:
    """No worker can work on this slot."""

    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """All processes have ended as ordered; this is the last message."""


# With each goes the worker that it concerns.
Message = Event | Ready | Failed | Closed
Messages = list[tuple[int, Message]]


class RayWorker:
    """Holds a slot, and the processes that work there. `name` is what Ray's logs call it."""

    def __init__(self, name: str, workers: Sequence[int], spec: ActorSpec) -> None:
        ray = load_ray()
        self._name = name
        self._first = workers[0]
        self._slots: dict[int, Slot] = {}
        self._unsaid: Messages = []
        self._orders: dict[int, ActorCommand] = {}
        self._orders_done = 0
        context = ray.get_runtime_context()
        address: str = ray.util.get_node_ip_address()
        self._port = reserved_port(address)  # held as long as this actor lives
        meeting = f"tcp://{address}:{self._port.getsockname()[1]}"
        here = Ready(socket.gethostname(), address, context.get_node_id(), meeting)
        self._found: Ready | Failed = here
        if problem := _problem(spec):
            self._found = Failed(f"{here} {problem}")
            return
        environment = dict(os.environ)
        environment["RAY_ADDRESS"] = context.gcs_address  # for user code that uses Ray
        if interface := interface_of(address):
            environment.setdefault("GLOO_SOCKET_IFNAME", interface)
        environment |= spec.environment
        greeting = pickle.dumps(replace(spec.parcel, path=_search_path(spec.parcel)), protocol=5)
        for worker in workers:
            begin = partial(
                WorkerProcess, log=spec.log_of(worker), environment=environment, cores=[], echo=_STDOUT
            )
            hear, hang_timeout = partial(self._hear, worker), HangTimeout(spec.hang_after)
            alone: dict[int, Slot] = {}  # whether others can go on is for the driver to say
            slot = Slot(worker, begin, greeting, hear, hang_timeout, alone)
            alone[worker] = self._slots[worker] = slot

    def __repr__(self) -> str:
        return self._name

    async def events(self) -> AsyncIterator[Messages]:
        """Bring the processes up, and say all that there is to say, to the end."""
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        yield [(self._first, self._found)]
        for slot in self._slots.values():
            slot.start()
        said: Messages = []
        while not any(isinstance(message, Closed | Failed) for _, message in said):
            await self._news.wait()
            self._news.clear()
            said, self._unsaid = self._unsaid, []
            if said:
                yield said

    async def order(self, number: int, order: ActorCommand) -> None:
        """Do what the driver orders, in the order of its numbers: calls may overtake each other."""
        self._orders[number] = order
        while self._orders_done in self._orders:
            next_order = self._orders.pop(self._orders_done)
            self._orders_done += 1
            self._do(*next_order)

    def _do(self, what: str, worker: int, message: bytes, patience: int) -> None:
        if what == "close":
            self._closing = asyncio.create_task(asyncio.to_thread(self._close))
        elif worker in self._slots:
            if what == "end":
                self._slots[worker].end(message.decode())
            else:
                self._slots[worker].deliver(message, patience)

    # The slots' own threads.

    def _close(self) -> None:
        for slot in self._slots.values():
            slot.ask_to_close()
        for slot in self._slots.values():
            slot.join()
        self._loop.call_soon_threadsafe(self._say, self._first, Closed())

    def _hear(self, worker: int, event: Event) -> None:
        reason = self._slots[worker].given_up
        given_up = isinstance(event, WorkerJoined) and reason is not None
        self._loop.call_soon_threadsafe(self._say, worker, Failed(str(reason)) if given_up else event)

    # The actor's thread.

    def _say(self, worker: int, message: Message) -> None:
        self._unsaid.append((worker, message))
        if not isinstance(message, _PATIENT):
            self._news.set()
        elif len(self._unsaid) == 1:
            self._loop.call_later(_LINGER_SECONDS, self._news.set)


def _problem(spec: ActorSpec) -> str | None:
    """Return why no worker can work here, if so."""
    if hippo.__version__ != spec.version:
        return (
            f"has Hippo {hippo.__version__}, and the driver has {spec.version}: install the same version "
            "on all nodes, or send the driver's along with runtime_env={'py_modules': [hippo]}"
        )
    folder = spec.checkpoints
    if spec.in_bucket:
        return None
    if not (folder / spec.marker).is_file():
        return (
            f"does not see {folder}, where the driver keeps checkpoints: put the study's home, or the folder "
            "that 'checkpoints' in it is a link to, on storage that all nodes see at the same path"
        )
    if not os.access(folder, os.W_OK):
        return f"may not write to {folder}, where checkpoints are kept: give it the right to"
    return None


def _search_path(parcel: Parcel) -> tuple[str, ...]:
    """Return where processes look for modules: as this node has it, then what only the driver looks at.

    The node comes first because a runtime environment may bring packages of its own.
    """
    rays = Path(load_ray().__file__).parent
    here = [place for place in sys.path if not (place and Path(place).is_relative_to(rays))]
    return tuple(dict.fromkeys([*here, *(place for place in parcel.path if Path(place).exists())]))
