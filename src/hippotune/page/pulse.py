"""How a running plan is at one moment, beside its facts: what runs, what comes next, what time is left."""

from __future__ import annotations

import math
from typing import Any

from hippotune.engine.lease import Lease
from hippotune.shell.runtime import Runtime
from hippotune.stages.frontier import Task

_MOST_NEXT = 8


def take_pulse(runtime: Runtime) -> dict[str, Any]:
    """Return this moment, as plain values. To be called on the engine's thread."""
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
        "chain": max([(lease.goal - lease.at) / profile.speed(lease.width) for lease in running], default=0),
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
        "reach": round(task.reach),
    }


def _until(seconds: float) -> float | None:
    return round(max(seconds, 0.0), 1) if math.isfinite(seconds) else None
