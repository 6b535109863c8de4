"""What always holds between two events, as a check for tests and for debugging.

* Every metric that an open request misses is wanted in the frontier, and by nobody else.
* A promise (to evaluate, to save) names a lease that is known and that owes it.
* A worker has at most one running lease, and a lease that runs has its workers.
* Where a slot is free, nothing can start, unless the engine is paused, was halted or is short of room or of
  time, or keeps the slot for a lease that stops to go on wider.
* What the frontier would start next is what a frontier made afresh from the plan and the leases would.
"""

from __future__ import annotations

from hippotune.engine.core import Engine
from hippotune.errors import IllegalTransition
from hippotune.plan.facts import Position


def validate(engine: Engine) -> None:
    """Raise `IllegalTransition`, with the story of the lease concerned, where something does not hold."""
    for number, request in engine.requests.items():
        for step, node in request.missing.items():
            want = engine.frontier.wants.get(node, {}).get(step)
            kept_for = engine.keepers.get(Position(node.id, step), ())
            if (want is None or number not in want.requests) and number not in kept_for:
                raise IllegalTransition(f"request {number} misses step {step} of {node}, and nobody knows")
    for node, wants in engine.frontier.wants.items():
        for step, want in wants.items():
            if want.lease is not None and step not in engine.leases[want.lease].evaluations:
                raise IllegalTransition(
                    f"step {step} of {node} is owed by {engine.leases[want.lease].tale()}"
                )
            for number in want.requests:
                if step not in engine.requests[number].missing:
                    raise IllegalTransition(
                        f"step {step} of {node} is wanted by request {number}, had already"
                    )
    for node, coming in engine.frontier.coming.items():
        for step, number in coming.items():
            if step not in engine.leases[number].saves:
                raise IllegalTransition(
                    f"a save at {step} of {node} is owed by {engine.leases[number].tale()}"
                )
    for worker, number in engine.workers.busy.items():
        if worker in engine.broken.get(number, ()):
            continue
        if worker not in engine.leases[number].workers or engine.leases[number].state != "running":
            raise IllegalTransition(f"worker {worker} is busy with {engine.leases[number].tale()}")
    stopped = engine.halted or engine.paused or bool(engine.choosing.deadlines) or not engine.has_room()
    for worker, position in engine.workers.unsaved():
        held = engine.frontier.held(engine.plan[position.node], position.step)
        if held is not None and not stopped and engine.choosing.widening is None:
            raise IllegalTransition(f"worker {worker} is idle while it can go on from {position}")
    afresh = engine.frontier.rebuilt()
    for study in afresh.studies():
        if engine.frontier.best(study) != afresh.best(study):
            raise IllegalTransition(f"the frontier of {study!r} does not follow from the plan and the leases")
        kept_free = any(lease.claim for lease in engine.leases.values())
        if engine.workers.free and not (stopped or kept_free) and afresh.best(study) is not None:
            raise IllegalTransition(f"a worker is idle while something of {study!r} can start")
