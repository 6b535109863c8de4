"""How a running plan is at one moment, beside its facts: what runs, what comes next, what time is left."""

from __future__ import annotations

import math
from time import monotonic, thread_time
from typing import Any

from hippotune.engine.lease import Lease
from hippotune.shell.loop_thread import PlanClosed
from hippotune.shell.runtime import Runtime
from hippotune.stages.tasks import Task

_MOST_NEXT = 8
# At most this part of the engine's time goes into looking at it, and a look is at most this old.
_SHARE_OF_TIME = 0.02
_MOST_SECONDS = 1.0


class Pulses:
    """Looks at a running plan without taking much of its engine's time: a look serves for a moment."""

    def __init__(self) -> None:
        self._last: dict[str, Any] | None = None
        self._took = self._taken_at = self._worked = 0.0

    def of(self, runtime: Runtime) -> dict[str, Any] | None:
        """Return how things are now, or were a moment ago; None where the plan was closed."""
        try:
            return runtime.ask(lambda: self._look(runtime))
        except PlanClosed:
            return None

    def _look(self, runtime: Runtime) -> dict[str, Any]:
        now, worked = monotonic(), thread_time()
        is_dear = worked - self._worked < self._took / _SHARE_OF_TIME
        if self._last is None or not is_dear or now - self._taken_at > _MOST_SECONDS:
            self._last = _taken(runtime)
            self._worked, self._taken_at = thread_time(), now
            self._took = self._worked - worked
        return self._last


def _taken(runtime: Runtime) -> dict[str, Any]:
    loop = runtime.loop
    engine, now = loop.engine, loop.executor.now()
    running = [lease for lease in engine.leases.values() if lease.state == "running"]
    profile = engine.profile
    return {
        "now": round(now, 3),
        "virtual": loop.executor.virtual,
        "workers": {"idle": sorted(engine.workers.idle), "expected": loop.executor.workers * engine.packing},
        "leases": [_lease(lease) for lease in running],
        "next": [_task(task) for task in engine.state.frontier.ready(_MOST_NEXT)[0]],
        "limits": {
            study: {"deadline": _until(at - now), "budget": _until(budget - engine.spent(study, now))}
            for study, (at, budget) in engine.state.deadlines.items()
        },
        "usual": profile.usual,
        "slots": engine.workers.slots,
        "chain": max([lease.time_left(profile, now, lease.goal) for lease in running], default=0),
    }


def _lease(lease: Lease) -> dict[str, Any]:
    return {
        "lease": lease.id,
        "study": lease.study,
        "workers": list(lease.workers),
        "path": [[node.id, start, end] for node, start, end in lease.path],
        "at": lease.at,
        "end": lease.end,
        "began": round(lease.began, 3),
        "width": float(lease.width),
        "proof": lease.proof,
    }


def _task(task: Task) -> dict[str, Any]:
    return {
        "node": task.node.id,
        "start": task.start,
        "goal": task.goal.id,
        "end": task.end,
        "reach": round(task.time),
    }


def _until(seconds: float) -> float | None:
    return round(max(seconds, 0.0), 1) if math.isfinite(seconds) else None
