"""The actor that holds a slot of a Ray cluster.

It trains nothing itself: it keeps a worker process on its node, or several where leases are packed, and these
are the very program that trains on one machine. So results are the same, user code has a main thread and an
environment of its own, and where it crashes, hangs or runs out of memory, a process is replaced and not an
actor.

Orders come from its driver, and messages go there, over a channel of their own. The processes die with the
actor, and the actor with its driver.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import hippotune as hippo
from hippotune.executors import lease_log
from hippotune.executors.local.channel import Channel
from hippotune.executors.local.hang_timeout import HangTimeout
from hippotune.executors.local.process import WorkerProcess
from hippotune.executors.local.slot import Slot
from hippotune.executors.ray.cluster import load_ray
from hippotune.executors.ray.network import answer, interface_of, listen, reserved_port
from hippotune.executors.shipping import Parcel
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

# What is ordered, for which worker; with it goes the message of a command and the patience with what it
# begins, or why a worker is to end.
Order = tuple[Literal["deliver", "end", "close"], int, bytes, int]


@dataclass(frozen=True, slots=True)
class ActorSpec:
    """What all actors of an executor have to know."""

    parcel: Parcel
    checkpoints: Path
    marker: str
    environment: Mapping[str, str]
    hang_after: float | None
    version: str
    secret: bytes = field(repr=False)

    def log_of(self, worker: int) -> Path:
        """Return where a worker's prints go: next to the checkpoints, so that they are all in one place."""
        return self.checkpoints / lease_log.FOLDER / f"worker-{worker}.log"


@dataclass(frozen=True, slots=True)
class Ready:
    """The actor is up, on this node, and listens at a port for its driver's call.

    Others who train a lease with its workers meet them at `meeting`.
    """

    host: str
    address: str
    port: int
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
    """Holds a slot, and the processes that work there."""

    def __init__(self, workers: Sequence[int], spec: ActorSpec) -> None:
        ray = load_ray()
        self._slots: dict[int, Slot] = {}
        self._news = threading.Condition()
        self._unsaid: Messages = []
        self._channel: Channel | None = None
        self._alone = threading.Event()
        self._first = workers[0]
        address: str = ray.util.get_node_ip_address()
        self._port = reserved_port(address)  # held as long as this actor lives
        self._listening = listen(address)
        here = Ready(
            socket.gethostname(),
            address,
            port=self._listening.getsockname()[1],
            meeting=f"tcp://{address}:{self._port.getsockname()[1]}",
        )
        self._found: Ready | Failed = here
        if problem := _problem(spec):
            self._found = Failed(f"{here} {problem}")
            return
        environment = dict(os.environ)
        environment["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address  # for user code that uses Ray
        if interface := interface_of(address):
            environment.setdefault("GLOO_SOCKET_IFNAME", interface)
        environment |= spec.environment
        greeting = pickle.dumps(replace(spec.parcel, path=_search_path(spec.parcel)), protocol=5)
        for worker in workers:
            begin = partial(WorkerProcess, log=spec.log_of(worker), environment=environment, cores=[])
            hear, hang_timeout = partial(self._hear, worker), HangTimeout(spec.hang_after)
            alone: list[Slot] = []  # whether others can go on is for the driver to say
            slot = Slot(worker, begin, greeting, hear, hang_timeout, alone)
            alone.append(slot)
            self._slots[worker] = slot
        threading.Thread(target=self._serve, args=[spec.secret], name="orders", daemon=True).start()
        threading.Thread(target=self._speak_later, name="news", daemon=True).start()
        for slot in self._slots.values():
            slot.start()

    def settle(self) -> Ready | Failed:
        """Say where the actor is, or why no worker can work there."""
        return self._found

    def stay(self) -> None:
        """Come back when the driver is gone. Where the actor is, the call fails, and its error says why."""
        self._alone.wait()

    def _serve(self, secret: bytes) -> None:
        """Do what the driver orders, until it is gone."""
        with self._listening:
            channel = answer(self._listening, secret)
        with self._news:
            self._channel = channel
            self._speak()
        try:
            while True:
                self._do(*pickle.loads(channel.wait()))
        except EOFError:
            pass
        finally:
            for slot in self._slots.values():
                slot.abandon()
            channel.disconnect()
            self._alone.set()

    def _do(self, what: str, worker: int, message: bytes, patience: int) -> None:
        if what == "close":
            threading.Thread(target=self._close, name="closing", daemon=True).start()
        elif worker in self._slots:
            if what == "end":
                self._slots[worker].end(message.decode())
            else:
                self._slots[worker].deliver(message, patience)

    def _close(self) -> None:
        for slot in self._slots.values():
            slot.ask_to_close()
        for slot in self._slots.values():
            slot.join()
        self._say(self._first, Closed())

    def _hear(self, worker: int, event: Event) -> None:
        reason = self._slots[worker].given_up
        given_up = isinstance(event, WorkerJoined) and reason is not None
        self._say(worker, Failed(str(reason)) if given_up else event)

    def _say(self, worker: int, message: Message) -> None:
        with self._news:
            self._unsaid.append((worker, message))
            if not isinstance(message, _PATIENT):
                self._speak()
            elif len(self._unsaid) == 1:
                self._news.notify()

    def _speak(self) -> None:
        """Say what there is to say. With `_news` held."""
        if self._channel is not None and self._unsaid:
            self._channel.put(pickle.dumps(self._unsaid, protocol=5))
            self._unsaid = []

    def _speak_later(self) -> None:
        with self._news:
            while True:
                self._news.wait_for(lambda: self._unsaid and self._channel)
                self._news.wait(_LINGER_SECONDS)
                self._speak()


def _problem(spec: ActorSpec) -> str | None:
    """Return why no worker can work here, if so."""
    if hippo.__version__ != spec.version:
        return (
            f"has Hippo {hippo.__version__}, and the driver has {spec.version}: install the same version "
            "on all nodes, or send the driver's along with runtime_env={'py_modules': [hippo]}"
        )
    folder = spec.checkpoints
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
