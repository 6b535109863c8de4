"""Virtual and real time side by side: one study, trained on real workers and simulated from its profile.

The demo's network on 36 trials, by successive halving and as a grid, on two workers. What a step takes (by
batch size), an evaluation, a load and the start are averages over the real run; the simulation gets these
and the metrics, and decides everything else itself: which leases there are, on which worker, in which order.

On one worker, without decisions that wait for results, both have to take the same leases in the same order.

Bar: the simulated time to the end is within 10 % of the real one, and all leases of one worker are the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from time import time
from typing import Any

import torch

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune import Constant, Cosine, Exponential, MultiStep, Piecewise, Warmup
from hippotune.executors.base import Emit, Job
from hippotune.protocol.commands import ExecutorCommand, RunLease
from hippotune.protocol.events import Event, LeaseStarted, MetricsReported, Progressed, WorkerJoined

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from digits import Digits

SPACE = hippo.Grid(
    {
        "lr": [
            Constant(0.1),
            MultiStep(0.1, [20], 0.1),
            MultiStep(0.1, [20, 30], 0.1),
            Exponential(0.1, 0.97),
            Warmup(5, Cosine(0.1, 35)),
            Warmup(5, Exponential(0.1, 0.97)),
        ],
        "bs": [128, 256, MultiStep(128, [15], 2)],
        "momentum": [0.9, Piecewise([0.9, 0.95], [15])],
    }
)
STEPS = 40
BARS = [
    Bar("halving_difference_percent", "at most", 10.0),
    Bar("grid_difference_percent", "at most", 10.0),
    Bar("one_worker_leases_that_differ", "at most", 0),
]


class Single(Digits):
    """The demo's trainer on one thread, as for one of two workers on two cores."""

    def build(self) -> None:
        torch.set_num_threads(1)
        super().build()


class Watched(hippo.Local):
    """Local workers, and a profile of what they say."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._leases: dict[int, RunLease] = {}
        self._steps: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._loads: list[float] = []
        self._builds: list[float] = []
        self._evaluations: list[float] = []
        self._joins: list[float] = []

    async def start(self, job: Job, emit: Emit) -> None:
        began = time()

        def noted(event: Event) -> None:
            self._note(event, time() - began)
            emit(event)

        await super().start(job, noted)

    def carry_out(self, command: ExecutorCommand) -> None:
        if isinstance(command, RunLease):
            self._leases[command.lease] = command
        super().carry_out(command)

    def _note(self, event: Event, now: float) -> None:
        match event:
            case WorkerJoined():
                self._joins.append(now)
            case LeaseStarted(lease, seconds):
                started = self._leases[lease]
                if started.source is not None:
                    self._loads.append(seconds)
                elif not started.warm and len(self._builds) < self.workers:
                    self._builds.append(seconds)
            case Progressed(lease, step, steps, seconds):
                spent = self._steps[self._leases[lease].config.values(step - 1)["bs"]]
                spent[0] += seconds
                spent[1] += steps
            case MetricsReported(seconds=seconds):
                self._evaluations.append(seconds)

    def simulated(self, metrics: hippo.study.Report) -> hippo.Simulated:
        """Return virtual workers that are as quick as these were."""
        each = {value: seconds / steps for value, (seconds, steps) in self._steps.items()}

        def seconds_per_step(hp: Mapping[str, Any], width: float) -> float:
            return each[hp["bs"]] / width

        return hippo.Simulated(
            self.workers,
            seconds_per_step=seconds_per_step,
            startup=statistics.mean(self._joins) + statistics.mean(self._builds),
            load=statistics.mean(self._loads or [0.0]),
            evaluate=statistics.mean(self._evaluations),
            metrics=metrics,
        )


def both(tuner: hippo.tuners.Tuner, workers: int) -> tuple[hippo.study.Report, hippo.study.Report]:
    """Return the reports of a real study, and of the same one in virtual time."""
    with tempfile.TemporaryDirectory() as home:
        watched = Watched(workers)
        with hippo.Study("agreement", Single, home=home, executor=watched) as study:
            real = study.tune(tuner)
        virtual = hippo.Study("agreement", Single, home=home, executor=watched.simulated(real)).tune(tuner)
    return real, virtual


def leases_of(report: hippo.study.Report) -> list[list[tuple[int, int, int]]]:
    """Return the stretches of nodes in each lease that trained anything, in the order of the leases."""
    spans = sorted(
        (span for span in report._trace.spans if span.last > span.first),
        key=lambda span: (span.lease, span.first),
    )
    return [
        [(span.node, span.first, span.last) for span in lease]
        for _, lease in groupby(spans, key=lambda span: span.lease)
    ]


def measure(options: argparse.Namespace) -> Figures:
    figures: dict[str, Any] = {"trials": len(list(SPACE)), "workers": 2}
    tuners = {
        "halving": hippo.SuccessiveHalving(SPACE, "val_acc", "max", 10, STEPS, 2),
        "grid": hippo.GridSearch(SPACE, "val_acc", "max", STEPS),
    }
    for name, tuner in tuners.items():
        real, virtual = both(tuner, 2)
        figures |= {
            f"{name}_real_seconds": real.work.wall_seconds,
            f"{name}_virtual_seconds": virtual.work.wall_seconds,
            f"{name}_difference_percent": 100 * abs(virtual.work.wall_seconds / real.work.wall_seconds - 1),
            f"{name}_steps_trained": real.work.steps_trained,
            f"{name}_virtual_steps_trained": virtual.work.steps_trained,
        }
    one, other = map(leases_of, both(hippo.GridSearch(SPACE, "val_acc", "max", 10), 1))
    figures["one_worker_leases"] = len(one)
    figures["one_worker_leases_that_differ"] = sum(
        mine != yours for mine, yours in zip(one, other, strict=False)
    ) + abs(len(one) - len(other))
    return figures


if __name__ == "__main__":
    run(__doc__, measure, BARS)
