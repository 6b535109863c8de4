"""How a lease starts: its workers are taken, and its leader is told what to do."""

from __future__ import annotations

from fractions import Fraction

from hippotune.engine.lease import Lease
from hippotune.engine.state import State
from hippotune.protocol.commands import RunLease, UpdateLease
from hippotune.stages.tasks import Path


def open_lease(
    state: State, study: str, worker: int, path: Path, width: Fraction, proof: bool = False
) -> Lease:
    """Put an idle worker on a path, and others beside it for a width above 1. Nothing is promised yet."""
    (_, start, _), (goal, _, end) = path[0], path[-1]
    lease = Lease(state.leases.next_number(), study, worker, path, end, state.now, start, width, proof=proof)
    lease.updated_at, lease.platform = state.now, state.workers.platform(worker)
    state.leases.open(lease)
    state.workers.take(worker, lease.id, width)
    kinds = state.kinds_for(goal)
    lease.peers = tuple(state.workers.join_lease(lease.id, worker, kinds) for _ in range(1, int(width)))
    return lease


def first_orders(state: State, lease: Lease, warm: bool = False) -> RunLease:
    """Return what a lease's leader is told, as things are; `warm` says that it holds the first state."""
    source = None if warm or not lease.start else lease.node_at(lease.start).checkpoints[lease.start]
    return RunLease(
        lease=lease.id,
        worker=lease.worker,
        config=lease.path[-1][0].config,
        start=lease.start,
        end=lease.end,
        segments=lease.segments,
        saves=frozenset(lease.saves),
        evaluations=frozenset(lease.evaluations),
        source=source,
        warm=warm,
        required=state.required,
        peers=lease.peers,
        width=lease.width,
        fingerprints=frozenset(lease.fingerprints),
        proof=lease.proof,
        checkpoint_every=lease.checkpoint_every,
    )


def send(state: State, lease: Lease, orders: RunLease, why: str = "") -> None:
    """Tell a lease's leader what to do."""
    lease.last_sent = UpdateLease(
        orders.lease,
        orders.worker,
        orders.end,
        orders.saves,
        orders.evaluations,
        orders.fingerprints,
        orders.checkpoint_every,
    )
    lease.record(state.now, f"given to {', '.join(f'worker {each}' for each in lease.workers)}{why}")
    state.commands.append(orders)
