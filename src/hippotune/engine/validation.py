"""Checks what always holds between two events, for tests and for debugging.

* A request waits for exactly the steps that it misses: for metrics in the frontier, or for a checkpoint that
  a lease has promised. Nothing else is wanted.
* Every promise is listed by lease and by place, and made by a lease that there is. A lease that is only being
  saved promises saves, and nothing else.
* A lease that runs has its workers, which are on nothing else, and is listed on the nodes of its path; every
  busy worker is on such a lease, or on one that is broken. No slot is given out more than once; which slots
  have room follows from who is on them, and only idle workers hold states.
* A lease that proves something promises no metrics and is listed on no node. What it is to prove is decided
  once. No lease trains at a width that is not proved.
* A lease has at most two interim checkpoints, both in the plan: the last one, and the next.
* Where a slot is free, nothing can start, unless the engine is paused, was halted or is short of room or of
  time, or keeps the slot for a lease that stops to go on wider, or for the proof of a width.
* What the frontier would start next, and how much there is to start, is what a frontier made afresh from the
  plan and the promises says.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hippotune.engine.core import Engine
from hippotune.errors import IllegalTransition
from hippotune.plan.facts import Position


def validate(engine: Engine) -> None:
    """Raise `IllegalTransition`, with the history of the lease concerned, where something does not hold."""
    for check in (_requests, _promises, _leases, _proofs, _workers, _work):
        for fault in check(engine):
            raise IllegalTransition(fault)


def _requests(engine: Engine) -> Iterator[str]:
    state = engine.state
    waiting = state.promises.waiting_for_save
    for number, request in state.requests.items():
        if not request.missing:
            yield f"request {number} misses nothing and is not answered"
        for step, node in request.missing.items():
            want = state.frontier.wants.get(node, {}).get(step)
            for_metrics = want is not None and number in want.requests
            for_save = number in waiting.get(Position(node.id, step), {})
            if for_metrics == for_save:
                yield f"request {number} misses step {step} of {node} and waits for it {2 * for_save} times"
    for node, wants in state.frontier.wants.items():
        for step, want in wants.items():
            if not want.requests:
                yield f"step {step} of {node} is wanted by no request"
            for number in want.requests:
                if number not in state.requests or state.requests[number].missing.get(step) is not node:
                    yield f"step {step} of {node} is wanted by request {number}, which does not miss it"
    for position, numbers in waiting.items():
        node = state.plan[position.node]
        if not numbers or not state.promises.is_saved(node, position.step):
            yield f"requests {list(numbers)} wait for a save at {position}, which no lease has promised"
        for number in numbers:
            if number not in state.requests or position.step not in state.requests[number].missing:
                yield f"request {number} waits for a save at {position}, which it does not miss"
    for number in state.worths:
        if number not in state.requests:
            yield f"request {number} is worth something and is not open"


def _promises(engine: Engine) -> Iterator[str]:
    promises = engine.state.promises
    for kind, ledger in (("metrics", promises.evaluations), ("a save", promises.saves)):
        by_lease = {(lease, lease.node_at(step), step) for lease, step in ledger.items()}
        by_place = {
            (lease, node, step)
            for node, steps in ledger.places.items()
            for step, leases in steps.items()
            for lease in leases
        }
        for lease, node, step in by_lease ^ by_place:
            yield f"{kind} at step {step} of {node} is promised on one side only: {lease.history()}"
        if ledger.count != len(by_lease):
            yield f"{ledger.count} promises of {kind} are counted where there are {len(by_lease)}"
        for lease, _, step in by_lease:
            if engine.leases.get(lease.id) is not lease:
                yield f"{kind} at step {step} is promised by a lease that is over: {lease.history()}"
    for lease in engine.leases.values():
        ours = (lease.evaluations, lease.saves)
        if ours[0] is not promises.evaluations.of(lease) or ours[1] is not promises.saves.of(lease):
            yield f"promises are kept beside their owner: {lease.history()}"
        if lease.state == "saving" and (lease.evaluations or not lease.saves):
            yield f"a lease without a worker promises metrics, or nothing at all: {lease.history()}"


def _leases(engine: Engine) -> Iterator[str]:
    state = engine.state
    running = {lease for lease in engine.leases.values() if lease.state == "running"}
    listed = {(node, lease) for node, leases in state.leases.on_nodes() for lease in leases}
    led_along = {(node, lease) for lease in running if not lease.proof for node, _, _ in lease.path}
    for node, lease in listed ^ led_along:
        yield f"a lease is listed on {node} or leads along it, but not both: {lease.history()}"
    for number, lease in engine.leases.items():
        if number != lease.id or lease.state == "over":
            yield f"a lease is listed wrongly: {lease.history()}"
    for lease in running:
        for worker in lease.workers:
            if engine.workers.busy.get(worker) != lease.id:
                yield f"a lease runs without its worker {worker}: {lease.history()}"
        interim = [step for step in lease.interims if lease.position(step) in engine.plan.interim]
        if len(interim) > 2 or len(interim) < len(lease.interims):
            yield f"interim checkpoints at {sorted(lease.interims)} are too many, or gone: {lease.history()}"


def _proofs(engine: Engine) -> Iterator[str]:
    running = {
        lease.id: lease for lease in engine.leases.values() if lease.proof and lease.state == "running"
    }
    for number in running.keys() ^ engine.proofs.running.keys():
        yield f"lease {number} is a proof lease on one side only: in the lease table or in the proofs"
    for lease in running.values():
        if lease.evaluations:
            yield f"a proof promises metrics: {lease.history()}"
    steps: dict[str, list[int]] = {}
    for fact in engine.plan.proofs:
        if fact.kind == "rehearsal":
            steps.setdefault(fact.platform, []).append(fact.position.step)
    if any(later <= earlier for each in steps.values() for earlier, later in pairwise(each)):
        yield "the rehearsal was decided more than once"
    yield from engine.proofs.rehearsal.faults()
    yield from engine.proofs.width.faults()


def _workers(engine: Engine) -> Iterator[str]:
    workers, broken = engine.workers, engine.worker_events.broken
    for worker, number in workers.busy.items():
        if number in broken:
            if worker not in broken[number].busy:
                yield f"worker {worker} is busy with lease {number}, which is broken and was not its own"
            continue
        lease = engine.leases.get(number)
        if lease is None or worker not in lease.workers or lease.state != "running":
            history = "which does not exist" if lease is None else lease.history()
            yield f"worker {worker} is busy with lease {number}: {history}"
    for number, lost in broken.items():
        if any(workers.busy.get(worker) != number for worker in lost.busy):
            yield f"lease {number} is broken and has workers {sorted(lost.busy)}, which are not busy with it"
        if lost.leader is None and not lost.busy:
            yield f"lease {number} is broken and has lost all of its workers, and is not forgotten"
    yield from workers.faults()


def _work(engine: Engine) -> Iterator[str]:
    state = engine.state
    stopped = (
        state.halted
        or state.paused
        or bool(state.slots_awaited)
        or bool(state.deadlines)
        or not engine.checkpoints.has_room()
    )
    for worker, position in engine.workers.states.unsaved():
        held = state.held(position)
        if held is not None and not stopped and state.allocator is None:
            yield f"worker {worker} is idle while it can go on from {position}"
    afresh = state.frontier.rebuilt()
    kept_free = state.reserved or any(lease.claim for lease in engine.leases.values())
    for study in state.frontier.wanting:
        now, then = ((each.best(study), each.total_time(study)) for each in (state.frontier, afresh))
        if now != then:
            yield f"the frontier of {study!r} does not follow from the plan and the promises"
        best = afresh.best(study)
        if best is None or not engine.workers.free_of(state.kinds_for(best.goal)):
            continue
        if not (stopped or kept_free):
            yield f"a worker is idle while something of {study!r} can start"
