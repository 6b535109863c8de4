"""Two engines in turns of half a second: while the one runs, all processes of the other are stopped.

A machine's speed changes from one minute to the next by more than an engine costs. Turns that follow each
other are alike: each turn of the one is compared with those of the other before and after it, and the median
of all these ratios counts.

What always holds: a step counts if it began and ended within one turn, after both engines had begun to train.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.process import BaseProcess

import psutil  # type: ignore[import-untyped, unused-ignore]

from peers_process import received, started
from peers_study import StepTime, Task

TURN_SECONDS = 0.5
_RESAMPLED = 2000

Turn = list[StepTime]
"""The steps of one turn."""


@dataclass(frozen=True)
class Difference:
    """By how much one thing is longer than another, in percent: the median, and a 95 % interval."""

    percent: float
    low: float
    high: float


def in_turns(engines: Mapping[str, str], tasks: Mapping[str, Task]) -> dict[str, list[Turn]]:
    """Run two engines, each with a task of its own, until one of them is done; return the turns of each."""
    running = {name: started(engine, tasks[name]) for name, engine in engines.items()}
    families = {name: _Family(process) for name, (process, _) in running.items()}
    rounds: list[dict[str, tuple[float, float]]] = []
    try:
        for name, (_, connection) in running.items():
            received(connection, tasks[name])
            connection.send("go")
            families[name].stop()
        while not any(connection.poll() for _, connection in running.values()):
            rounds.append({})
            for name, family in families.items():
                began = time.time()
                family.go_on()
                time.sleep(TURN_SECONDS)
                family.stop()
                rounds[-1][name] = (began, time.time())
        for name, (_, connection) in running.items():
            if connection.poll():  # it is done, or it has failed, which ends this program
                received(connection, tasks[name])
    finally:
        for family in families.values():
            family.end()
    begun = max(task.first_step_at() for task in tasks.values())
    counted = [each for each in rounds[:-1] if min(each.values())[0] > begun]
    steps = {name: task.step_times() for name, task in tasks.items()}
    return {name: [_within(steps[name], *each[name]) for each in counted] for name in engines}


def _within(steps: list[StepTime], first: float, last: float) -> Turn:
    return [step for step in steps if first < step.began and step.ended < last]


def difference(ours: list[Turn], theirs: list[Turn], seconds: Callable[[Turn], float]) -> Difference:
    """Return by how much our turns are longer than theirs around them; theirs come first in every round."""
    around = [(seconds(before) + seconds(after)) / 2 for before, after in pairwise(theirs)]
    ratios = [100 * (seconds(turn) / other - 1) for turn, other in zip(ours, around, strict=False)]
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(_RESAMPLED))
    low, high = medians[int(0.025 * _RESAMPLED)], medians[int(0.975 * _RESAMPLED)]
    return Difference(statistics.median(ratios), low, high)


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
