"""Virtual and real time side by side: one study, trained on real workers and simulated from its profile.

The demo's network on 36 trials, on two workers: by successive halving, as a grid, and by successive halving
on a Ray cluster on this machine. And a study with one long chain, which `Fluid` trains on both workers
(`width.py` has it too). What a step takes (by batch size and width), an evaluation and a load are averages
over the real run; the simulation gets these and the metrics, and decides everything else itself: which leases
there are, on which worker, in which order, how wide. Before the clock starts, plans are rehearsed, and every
worker is up and has prepared its data (which takes a second, once in a process).

On one worker, without decisions that wait for results, both have to take the same leases in the same order.

Bar: the simulated time to the end is within 10 % of the real one, and all leases of one worker are the same.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import hippotune as hippo
from harness import Bar, Figures, run
from hippotune import Config, Constant, Cosine, Exponential, MultiStep, Piecewise, Warmup
from hippotune.executors.base import Emit, Executor, Job
from hippotune.executors.worker.runner import QUIET_SECONDS
from hippotune.protocol.commands import ExecutorCommand, RunLease
from hippotune.protocol.events import Event, LeaseStarted, MetricsReported, Progressed
from hippotune.scheduling import Fluid, WidthPolicy

sys.path.insert(0, str(Path(__file__).parent / "studies"))
sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from chain import Chain

from digits import Digits
from width import OneLongChain

WORKERS = 2
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
OTHERS = tuple(Config({"lr": lr, "bs": 128, "momentum": 0.9}) for lr in (0.3, 0.4, 0.5))
OTHER_CHAINS = tuple(Config({"lr": lr, "bs": 256}) for lr in (0.02, 0.03, 0.04))
"""What is trained before the clock starts, and by no study: the first rehearses the plan."""
BEFORE = 10
CASES = ("halving", "grid", "width", "ray_halving")
BARS = [
    *(Bar(f"{case}_difference_percent", "at most", 10.0) for case in CASES),
    Bar("one_worker_leases_that_differ", "at most", 0),
]


class Watched(Executor):
    """Mixed into an executor: a profile of what its workers say."""

    def forget(self) -> None:
        """Begin the profile."""
        self._leases: dict[int, RunLease] = {}
        self._steps: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._loads: list[float] = []
        self._evaluations: list[float] = []

    async def start(self, job: Job, emit: Emit) -> None:
        self.forget()

        def noted(event: Event) -> None:
            self._note(event)
            emit(event)

        await super().start(job, noted)

    def carry_out(self, command: ExecutorCommand) -> None:
        if isinstance(command, RunLease):
            self._leases[command.lease] = command
        super().carry_out(command)

    def _note(self, event: Event) -> None:
        lease = self._leases.get(getattr(event, "lease", -1))
        if lease is None:
            return
        match event:
            case LeaseStarted(seconds=seconds) if lease.source is not None:
                self._loads.append(seconds)
            case Progressed(step=step, steps=steps, seconds=seconds):
                spent = self._steps[lease.config.values(step - 1)["bs"], float(lease.width)]
                spent[0] += seconds
                spent[1] += steps
            case MetricsReported(seconds=seconds):
                self._evaluations.append(seconds)

    def simulated(self, workers: int, metrics: Any) -> hippo.Simulated:
        """Return virtual workers that are as quick as these were."""
        each = {place: seconds / steps for place, (seconds, steps) in self._steps.items()}

        def seconds_per_step(hp: Mapping[str, Any], width: float) -> float:
            return each.get((hp["bs"], width)) or each[hp["bs"], 1.0] / width

        return hippo.Simulated(
            workers,
            seconds_per_step=seconds_per_step,
            load=statistics.mean(self._loads or [0.0]),
            evaluate=statistics.mean(self._evaluations),
            progress=QUIET_SECONDS,
            metrics=metrics,
        )


class WatchedLocal(Watched, hippo.Local):
    """Processes on this machine."""


class WatchedRay(Watched, hippo.Ray):
    """Actors of Ray on this machine."""


def both(
    tuner: hippo.tuners.Tuner,
    watched: Watched,
    workers: int = WORKERS,
    trainer: type[hippo.Trainer] = Digits,
    others: tuple[Config, ...] = OTHERS,
    width: WidthPolicy | None = None,
) -> tuple[hippo.study.Report, hippo.study.Report]:
    """Return the reports of a real study, and of the same one in virtual time."""
    with tempfile.TemporaryDirectory() as home:
        with hippo.Study("agreement", trainer, home=home, executor=watched, width=width) as study:
            nothing = _begin(study, others)
            watched.forget()
            real = study.tune(tuner, progress=False)
        table = {trial.config: dict(trial.metrics) for trial in real.trials}
        table |= {other: dict.fromkeys(range(1, BEFORE + 1), nothing) for other in others}
        executor = watched.simulated(workers, table)
        with hippo.Study("agreement", trainer, home=home, executor=executor, width=width) as study:
            _begin(study, others)
            return real, study.tune(tuner, progress=False)


def _begin(study: hippo.Study, others: tuple[Config, ...]) -> dict[str, float]:
    """Have the plan rehearsed, then every worker prepare its data; return what metrics look like."""
    metrics = study.eval(others[0], 2)
    asyncio.run(study.train([(other, BEFORE) for other in others[1:]]))
    return metrics


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
    figures: dict[str, Any] = {"trials": len(list(SPACE)), "workers": WORKERS}
    halving = hippo.SuccessiveHalving(SPACE, "val_acc", "max", 10, STEPS, 2)
    grid = hippo.GridSearch(SPACE, "val_acc", "max", STEPS)
    pairs = {
        "halving": both(halving, WatchedLocal(WORKERS, threads=1)),
        "grid": both(grid, WatchedLocal(WORKERS, threads=1)),
        "width": both(
            OneLongChain(),
            WatchedLocal(WORKERS, threads=1),
            trainer=Chain,
            others=OTHER_CHAINS,
            width=Fluid(max_width=2),
        ),
        "ray_halving": both(halving, WatchedRay(address="local", workers=WORKERS, threads=1)),
    }
    for name, (real, virtual) in pairs.items():
        figures |= {
            f"{name}_real_seconds": real.work.wall_seconds,
            f"{name}_virtual_seconds": virtual.work.wall_seconds,
            f"{name}_difference_percent": 100 * abs(virtual.work.wall_seconds / real.work.wall_seconds - 1),
            f"{name}_steps_trained": real.work.steps_trained,
            f"{name}_virtual_steps_trained": virtual.work.steps_trained,
        }
    one, other = map(
        leases_of, both(hippo.GridSearch(SPACE, "val_acc", "max", 10), WatchedLocal(1, threads=1), 1)
    )
    figures["one_worker_leases"] = len(one)
    figures["one_worker_leases_that_differ"] = sum(
        mine != yours for mine, yours in zip(one, other, strict=False)
    ) + abs(len(one) - len(other))
    return figures


if __name__ == "__main__":
    run(__doc__, measure, BARS)
