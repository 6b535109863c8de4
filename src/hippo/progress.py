"""Takes snapshots of a tuning for views: from the caller's side, looking on the engine's own thread."""

from __future__ import annotations

import time

from hippo.plan.node import Node
from hippo.plan.plan import reach
from hippo.report import best_result
from hippo.runtime import Closed, Runtime
from hippo.tuners.base import Mode
from hippo.tuning import Tuning
from hippo.view.snapshot import BestLine, Snapshot, WorkerLine

# Counting unique steps walks every trial: at most this part of the engine's time goes into it.
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
        self._unique = 0
        self._found = 0
        self._counted_at = 0.0
        self._counting_took = 0.0

    def begin(self, tuning: Tuning) -> None:
        """The tuning has begun."""
        self._tuning = tuning
        self._began = self._runtime.loop.executor.now()
        self._trained_before = self._runtime.loop.engine.trained

    def snapshot(self) -> Snapshot | None:
        """Return this moment's snapshot; None before the tuning has begun, and after the plan was closed."""
        if self._tuning is None:
            return None
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
        leases = {lease.worker: lease for lease in engine.leases.values() if lease.state == "running"}
        left = max(self._unique - self._found - trained, 0)
        best = best_result(tuning.results, self._metric, self._mode)
        lines = [
            WorkerLine(worker, lease.id, lease.start, lease.at, lease.end, lease.way[-1][0].config)
            if (lease := leases.get(worker)) is not None
            else WorkerLine(worker)
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
            steps_asked=sum(tuning.asked.values()),
            steps_unique=self._unique,
            steps_trained=trained,
            steps_found=self._found,
            workers=tuple(lines),
            workers_expected=executor.workers,
            best=None
            if best is None or best.metrics is None
            else BestLine(best.trial.number, best.step, best.trial.config, best.metrics),
            seconds=executor.now() - self._began,
            seconds_left=self._seconds_left(left, len(lines)),
            checkpoint_bytes=engine.plan.bytes,
        )

    def _trained(self) -> int:
        return self._runtime.loop.engine.trained - self._trained_before

    def _count(self, tuning: Tuning) -> None:
        """Count what all trials need, and what of it was there before the tuning began."""
        now = time.monotonic()
        if self._counting_took > _SHARE_OF_TIME * (now - self._counted_at):
            return
        under_way: dict[Node, int] = {}
        for lease in self._runtime.loop.engine.leases.values():
            for node, _, end in lease.way:
                under_way[node] = max(under_way.get(node, 0), min(end, lease.at))
        unique = left = 0
        for node, step in reach(tuning.asks()).items():
            there = max(node.start, under_way.get(node, 0), *node.checkpoints, *node.metrics)
            unique += step - node.start
            left += max(step - there, 0)
        self._unique = unique
        self._found = max(unique - left - self._trained(), 0)
        self._counted_at = time.monotonic()
        self._counting_took = self._counted_at - now

    def _seconds_left(self, steps: int, workers: int) -> float | None:
        engine = self._runtime.loop.engine
        if engine.profile.usual is None or not workers:
            return None
        chain = max((lease.end - lease.at for lease in engine.leases.values()), default=0)
        return engine.profile.usual * max(chain, steps / workers)
