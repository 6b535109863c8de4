"""Two engines in turns of a second: while the one runs, all processes of the other are stopped.

A machine's speed changes from one minute to the next by more than an engine costs. Seconds that follow each
other are alike: each turn of the one is compared with the turn of the other beside it.

What always holds: a step counts if it began and ended within one turn, after both engines had begun to train.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

import psutil  # type: ignore[import-untyped, unused-ignore]

from peers_process import received, started
from peers_study import Task

TURN_SECONDS = 1.0
_RESAMPLED = 2000

Turn = list[float]
"""What the steps of one turn took, in seconds."""


@dataclass(frozen=True)
class Compared:
    """How much longer one thing is than another, as ratios less one: the middle, and a 95 % interval."""

    middle: float
    low: float
    high: float


def in_turns(engines: Mapping[str, str], tasks: Mapping[str, Task]) -> dict[str, list[Turn]]:
    """Run two engines, each with a task of its own, until one of them is done; return the turns of each."""
    running = {name: started(engine, tasks[name]) for name, engine in engines.items()}
    families = {name: _Family(process) for name, (process, _) in running.items()}
    spans: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
    try:
        for name, (_, connection) in running.items():
            received(connection, tasks[name])
            connection.send("go")
            families[name].stop()
        while not any(connection.poll() for _, connection in running.values()):
            for name, family in families.items():
                began = time.time()
                family.go_on()
                time.sleep(TURN_SECONDS)
                family.stop()
                spans[name].append((began, time.time()))
    finally:
        for family in families.values():
            family.end()
    begun = max(task.first_step_at() for task in tasks.values())
    steps = {name: task.step_times() for name, task in tasks.items()}
    return {
        name: [_within(steps[name], first, last) for first, last in spans[name] if first > begun][:-1]
        for name in engines
    }


def _within(steps: list[tuple[float, float]], first: float, last: float) -> Turn:
    return [end - begin for begin, end in steps if first < begin and end < last]


def more(ours: list[Turn], theirs: list[Turn], typical: Callable[[Turn], float]) -> Compared:
    """Return by how much our steps are longer than theirs, turn by turn."""
    ratios = [typical(one) / typical(other) - 1 for one, other in zip(ours, theirs, strict=True)]
    draw = random.Random(0)
    middles = sorted(statistics.fmean(draw.choices(ratios, k=len(ratios))) for _ in range(_RESAMPLED))
    return Compared(
        statistics.fmean(ratios), middles[int(0.025 * _RESAMPLED)], middles[int(0.975 * _RESAMPLED)]
    )


class _Family:
    """A process and all that came of it."""

    def __init__(self, process: BaseProcess) -> None:
        assert process.pid is not None
        self._root = psutil.Process(process.pid)

    def stop(self) -> None:
        """Stop every process, also those that are started meanwhile."""
        stopped: set[psutil.Process] = set()
        while new := self._members() - stopped:
            for member in new:
                with suppress(psutil.NoSuchProcess):
                    member.suspend()
            stopped |= new

    def go_on(self) -> None:
        for member in self._members():
            with suppress(psutil.NoSuchProcess):
                member.resume()

    def end(self) -> None:
        for member in self._members():
            with suppress(psutil.NoSuchProcess):
                member.kill()

    def _members(self) -> set[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return {self._root, *self._root.children(recursive=True)}
        return set()
