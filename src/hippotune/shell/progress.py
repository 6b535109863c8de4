"""Takes snapshots of a tuning for views: from the caller's side, looking on the engine's own thread."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hippotune.engine.lease import Lease
from hippotune.errors import NotExact
from hippotune.plan.node import Node
from hippotune.plan.plan import reach
from hippotune.shell.runtime import Closed, Runtime
from hippotune.study.report import best_result
from hippotune.study.tuning import Tuning
from hippotune.tuners.base import Mode, Result
from hippotune.view.snapshot import BestLine, Snapshot, WorkerLine

# Counting steps walks every trial, and the best is one of all results: at most this part of the engine's time
# goes into both.
_SHARE_OF_TIME = 0.02


class Progress:
    """Follows one tuning."""

    def __init__(self, study: str, metric: str, mode: Mode, runtime: Runtime) -> None:
        self._study = study
        self._metric = metric
        self._mode: Mode = mode
        self._runtime = runtime
        self._tuning: Tuning | None = None
        self._began = 0.0
        self._trained_before = 0
        self._worked_before = 0.0
        self._unique = 0
        self._found = 0
        self._best: Result | None = None
        self._counted_at = 0.0
        self._counting_took = 0.0

    def begin(self, tuning: Tuning) -> None:
        """The tuning has begun."""
        self._tuning = tuning
        self._began = self._runtime.loop.executor.now()
        self._trained_before = self._runtime.loop.engine.trained
        self._worked_before = self._runtime.loop.engine.worker_seconds

    def snapshot(self, last: bool = False) -> Snapshot | None:
        """Return this moment's snapshot; None before the tuning has begun, and after the plan was closed.

        Where there is much to count, some of it may be a few seconds old, but not in the `last` one.
        """
        if self._tuning is None:
            return None
        if last:
            self._counting_took = 0.0
        try:
            return self._runtime.ask(self._take)
        except Closed:
            return None

    def _take(self) -> Snapshot:
        tuning = self._tuning
        assert tuning is not None
        engine = self._runtime.loop.engine
        executor = self._runtime.loop.executor
        trained = self._trained()
        self._count(tuning)
        running = [lease for lease in engine.leases.values() if lease.state == "running"]
        leases = {worker: lease for lease in running for worker in lease.workers}
        now = executor.now()
        left = max(self._unique - self._found - trained, 0)
        best = None if isinstance(self._runtime.loop.error, NotExact) else self._best
        lines = [
            WorkerLine(worker) if (lease := leases.get(worker)) is None else _line(worker, lease)
            for worker in sorted({*engine.workers.idle, *engine.workers.busy})
        ]
        return Snapshot(
            study=self._study,
            metric=self._metric,
            mode=self._mode,
            trials=len(tuning.asked),
            requests_open=tuning.open,
            requests_answered=tuning.answered,
            requests_failed=tuning.failed,
            requests_suspended=tuning.suspended,
            steps_requested=sum(tuning.asked.values()),
            steps_unique=self._unique,
            steps_trained=trained,
            steps_found=self._found,
            workers=tuple(lines),
            workers_expected=executor.workers * self._packing,
            best=None
            if best is None or best.metrics is None
            else BestLine(
                best.trial.number,
                best.step,
                best.trial.config,
                best.metrics,
                is_proved=not engine.proofs.rehearsal.is_open,
            ),
            seconds=now - self._began,
            seconds_left=self._seconds_left(left, running),
            checkpoint_bytes=engine.plan.bytes,
            utilisation=self._utilisation(now, running),
            until_deadline=max(tuning.limits.until_deadline, 0.0),
            until_budget=max(tuning.limits.until_budget, 0.0),
        )

    @property
    def _packing(self) -> int:
        """How many workers there are on a slot."""
        return self._runtime.loop.engine.packing

    def _utilisation(self, now: float, running: Sequence[Lease]) -> float:
        """Return which part of the slots' time was at work since the tuning began."""
        worked = self._runtime.loop.engine.worker_seconds - self._worked_before
        for lease in running:
            worked += (now - max(lease.began, self._began)) * float(lease.width)
        available = (now - self._began) * self._runtime.loop.executor.workers
        return min(worked / available, 1.0) if available > 0 else 0.0

    def _trained(self) -> int:
        return self._runtime.loop.engine.trained - self._trained_before

    def _count(self, tuning: Tuning) -> None:
        """Count what all trials need, and what of it was there before the tuning began; find the best."""
        now = time.monotonic()
        if self._counting_took > _SHARE_OF_TIME * (now - self._counted_at):
            return
        under_way: dict[Node, int] = {}
        for lease in self._runtime.loop.engine.leases.values():
            for node, _, end in lease.path:
                under_way[node] = max(under_way.get(node, 0), min(end, lease.at))
        unique = left = 0
        for node, step in reach(tuning.asks()).items():
            there = max(node.start, under_way.get(node, 0), *node.checkpoints, *node.metrics)
            unique += step - node.start
            left += max(step - there, 0)
        self._unique = unique
        self._found = max(unique - left - self._trained(), 0)
        self._best = best_result(tuning.results, self._metric, self._mode)
        self._counted_at = time.monotonic()
        self._counting_took = self._counted_at - now

    def _seconds_left(self, steps: int, running: Sequence[Lease]) -> float | None:
        engine = self._runtime.loop.engine
        profile, slots = engine.profile, engine.workers.slots
        if profile.usual is None or not slots:
            return None
        chain = max(((lease.goal - lease.at) / profile.speed(lease.width) for lease in running), default=0.0)
        return profile.usual * max(chain, steps / slots)


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
