"""The progress of training at one moment. It is shown, and never stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hippotune.engine.core import Engine
from hippotune.engine.lease import Lease
from hippotune.plan.node import Node
from hippotune.plan.plan import steps_needed
from hippotune.view.snapshot import WorkerLine


@dataclass(frozen=True, slots=True)
class Pulse:
    """One moment of a plan's training.

    `trained` and `worker_seconds` count since the plan was opened, `running_seconds` is the worker time of
    running leases since a moment, `chain` the seconds until the longest of them ends. `unique` and `left` are
    the steps that some trials take, each once, and those still to train; None where they were not counted.
    `is_proved` says whether the rehearsal is over.
    """

    now: float
    workers: tuple[WorkerLine, ...]
    workers_expected: int
    slots: int
    trained: int
    worker_seconds: float
    running_seconds: float
    chain: float
    step_seconds: float | None
    checkpoint_bytes: int
    is_proved: bool = True
    unique: int | None = None
    left: int | None = None

    def seconds_left(self, steps: int) -> float | None:
        """Return how long a number of steps still takes; None where no step was measured yet."""
        if self.step_seconds is None or not self.slots:
            return None
        return max(self.chain, self.step_seconds * steps / self.slots)


def take_pulse(
    engine: Engine, now: float, workers: int, since: float, asks: Iterable[tuple[Node, int]] | None
) -> Pulse:
    """Look at an engine; steps are counted where there are `asks`."""
    running = [lease for lease in engine.leases.values() if lease.state == "running"]
    leases = {worker: lease for lease in running for worker in lease.workers}
    profile = engine.profile
    chains = [lease.time_left(profile, now, lease.goal) for lease in running]
    unique, left = (None, None) if asks is None else _count(engine, asks)
    rehearsal = engine.proofs.rehearsal
    return Pulse(
        now=now,
        workers=tuple(
            WorkerLine(worker) if (lease := leases.get(worker)) is None else _line(worker, lease)
            for worker in sorted({*engine.workers.idle, *engine.workers.busy})
        ),
        workers_expected=workers * engine.packing,
        slots=engine.workers.slots,
        trained=engine.trained,
        worker_seconds=engine.worker_seconds,
        running_seconds=sum((now - max(lease.began, since)) * float(lease.width) for lease in running),
        chain=(profile.usual or 0.0) * max(chains, default=0.0),
        step_seconds=profile.usual,
        checkpoint_bytes=engine.plan.bytes,
        is_proved=rehearsal.is_over or (engine.plan.order > 0 and not rehearsal.is_open),
        unique=unique,
        left=left,
    )


def _count(engine: Engine, asks: Iterable[tuple[Node, int]]) -> tuple[int, int]:
    """Return how many steps trials take, each shared one once, and how many of them are to be trained yet."""
    under_way: dict[Node, int] = {}
    for lease in engine.leases.values():
        for node, _, end in lease.path:
            under_way[node] = max(under_way.get(node, 0), min(end, lease.at))
    unique = left = 0
    for node, step in steps_needed(asks).items():
        there = max(node.start, under_way.get(node, 0), *node.checkpoints, *node.metrics)
        unique += step - node.start
        left += max(step - there, 0)
    return unique, left


def _line(worker: int, lease: Lease) -> WorkerLine:
    return WorkerLine(
        worker,
        lease.id,
        lease.start,
        lease.at,
        lease.end,
        lease.path[-1][0].config,
        lease.width,
        None if worker == lease.worker else lease.worker,
    )
