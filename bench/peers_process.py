"""An engine in a process of its own, with a clock, a meter of CPU time and a scale for checkpoints beside it.

What always holds: CPU-seconds are those of the engine's process and of everything that it started, at any
distance, so that Ray's daemons and workers are among them. They are read from the system ten times a second,
and when the engine's time begins and ends. What a process uses between its last reading and its death is not
counted, in favour of engines that start many. When a run is over, nothing that it started is left.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]

from peers_study import Losses, Task

_READING_SECONDS = 0.1
_CLOSING_SECONDS = 60.0


class Engine(ABC):
    """What a hyper-parameter engine does for the comparison. Made, started, run and closed once."""

    given: str
    """What the engine is given beside the task, for people to read."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.own: dict[str, float] = {}
        """What the engine itself says of its run."""

    def start(self) -> None:  # noqa: B027 - optional
        """Start what serves many studies; the time that it takes is told apart."""

    @abstractmethod
    def run(self) -> Losses:
        """Start training processes, carry the study out, and return the metrics."""

    def close(self) -> None:  # noqa: B027 - optional
        """Let go of everything."""


@dataclass(frozen=True)
class Measured:
    """What a run took, and what came of it."""

    given: str
    start_seconds: float
    first_step_seconds: float
    wall_seconds: float
    cpu_seconds: float
    peak_checkpoint_bytes: int
    steps_trained: int
    losses: Losses
    own: dict[str, float]


def measured(engine: str, task: Task) -> Measured:
    """Run an engine, named as ``module:class:option``, and measure it."""
    process, ours = started(engine, task)
    with _Meter(process, task.home) as meter:
        given, start_seconds = received(ours, task)
        before = meter.cpu_seconds()
        began = time.time()
        ours.send("go")
        (losses, own), wall_seconds = received(ours, task)
        cpu_seconds = meter.cpu_seconds() - before
        ours.send("close")
        process.join(_CLOSING_SECONDS)
    return Measured(
        given,
        start_seconds,
        task.first_step_at() - began,
        wall_seconds,
        cpu_seconds,
        meter.peak_checkpoint_bytes,
        task.steps_trained(),
        losses,
        own,
    )


def started(engine: str, task: Task) -> tuple[BaseProcess, Connection]:
    """Start an engine's process: it says when it is ready, runs when told to, says what came, and ends."""
    task.home.mkdir(parents=True)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(engine, task, theirs), name=engine)
    process.start()
    theirs.close()
    return process, ours


def _serve(name: str, task: Task, connection: Connection) -> None:
    """In the engine's process: start, run and close it when told to."""
    output = os.open(task.home / "output.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(output, 1)  # what engines print must not mix with the figures
    os.dup2(output, 2)
    module, maker, *options = name.split(":")
    engine: Engine = getattr(importlib.import_module(module), maker)(task, *options)
    try:
        began = time.perf_counter()
        engine.start()
        connection.send((engine.given, round(time.perf_counter() - began, 3)))
        connection.recv()
        began = time.perf_counter()
        losses = engine.run()
        connection.send(((losses, engine.own), time.perf_counter() - began))
        connection.recv()
    finally:
        engine.close()


def received(connection: Connection, task: Task) -> tuple[Any, float]:
    """Return what an engine says next; where it has failed, end with its last lines."""
    try:
        received: tuple[Any, float] = connection.recv()
    except EOFError:
        lines = (task.home / "output.log").read_text(errors="replace").splitlines()[-30:]
        raise SystemExit("\n".join([f"the engine in {task.home} failed; its last lines:", *lines])) from None
    return received


class _Meter:
    """Reads the CPU time of a process and its descendants, and the size of checkpoints, until it is left."""

    def __init__(self, process: BaseProcess, home: Path) -> None:
        assert process.pid is not None
        self.peak_checkpoint_bytes = 0
        self._home = home
        self._root = psutil.Process(process.pid)
        self._seconds: dict[psutil.Process, float] = {}
        self._reading = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read_on, name="meter", daemon=True)

    def __enter__(self) -> _Meter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._read()
        for process in self._seconds:
            with suppress(psutil.NoSuchProcess):  # it knows its process by more than the number
                process.kill()

    def cpu_seconds(self) -> float:
        """Return what was used until now."""
        self._read()
        return sum(self._seconds.values())

    def _read_on(self) -> None:
        while not self._over.wait(_READING_SECONDS):
            self._read()
            self.peak_checkpoint_bytes = max(self.peak_checkpoint_bytes, _checkpoint_bytes(self._home))

    def _read(self) -> None:
        with self._reading:
            family = {self._root}
            with suppress(psutil.NoSuchProcess):
                family.update(self._root.children(recursive=True))
            for process in family | self._seconds.keys():
                with suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    self._seconds[process] = times.user + times.system


def _checkpoint_bytes(home: Path) -> int:
    total = 0
    for folder, _, files in os.walk(home):
        if "checkpoint" in folder[len(str(home)) :]:
            for file in files:
                with suppress(OSError):
                    total += os.stat(os.path.join(folder, file)).st_size
    return total
