"""Audits: the proof of the rehearsal, repeated at real branches.

A lease that passes a branch saves there, trains on and takes a fingerprint one step later; a proof lease then
takes that step from the branch's checkpoint, on another worker of the same platform if there is one, and must
come to the same state, which evaluate() must leave as it is. Where no worker of that platform is up, as after
a move to another machine, the audit waits for one; nothing waits for the audit. The first branches of a plan
are always audited, later ones as long as all proofs together stay within a share of the work. None is started
that would end after the deadline of the study that trained there: it is left to the next process that opens
the plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hippotune.engine.lease import Lease
from hippotune.engine.repeat import Repeat, record
from hippotune.engine.state import State
from hippotune.plan.facts import Position, StateRecorded
from hippotune.plan.node import Node
from hippotune.protocol.events import StateFingerprinted
from hippotune.protocol.fingerprint import Fingerprint
from hippotune.protocol.proof import ProofPolicy, Run
from hippotune.verdicts.judge import judge

# How many branches of a plan are audited in any case.
_FIRST = 2
# How often a step is repeated, where only plain values differ.
_MOST_REPEATS = 4


@dataclass(slots=True, eq=False)
class Audit(Repeat):
    """A step from a branch that is to be repeated; `fingerprinted_by` is the worker that it is compared with.

    It has to end before `deadline`. `earlier` is what came of it before, where that has left a doubt.
    """

    fingerprinted_by: int | None = None
    deadline: float = math.inf
    earlier: list[Run] = field(default_factory=list)


class Audits:
    """See the module. `waiting` are steps with a fingerprint that were not repeated yet."""

    def __init__(self, state: State, policy: ProofPolicy | None) -> None:
        self._state = state
        self._policy = policy if policy is not None and policy.audit else None
        self._planned: dict[tuple[Lease, int], tuple[Position, float]] = {}
        self._waiting: list[Audit] = []
        self._running = 0
        if self._policy is not None:
            self._waiting += [self._audit(fact, "") for fact in state.plan.fingerprints.values()]
        state.pins.append(self._is_source)

    def _audit(self, fact: StateRecorded, study: str) -> Audit:
        node, step = self._state.plan[fact.position.node], fact.position.step
        run, path = Run("repeated", step - 1), ((node, step - 1, step),)
        width = self._state.least_width
        fingerprints = frozenset({step - 1, step})
        return Audit(run, self, study, node.config, path, fingerprints, frozenset({step}), width=width)

    @property
    def is_open(self) -> bool:
        """Whether steps wait to be repeated that can be."""
        return any(self._is_possible(audit) for audit in self._waiting)

    def _is_possible(self, audit: Audit) -> bool:
        if self._is_late(audit):
            return False
        node = audit.path[0][0].holder(audit.start)
        kept = node.checkpoints.get(audit.start)
        if kept is None:
            return self._state.promises.is_saved(node, audit.start)
        return self._state.workers.is_there(kept.platform or None)

    def _is_late(self, audit: Audit) -> bool:
        return self._state.now + self._cost(audit.path[0][0]) > audit.deadline

    def _cost(self, node: Node) -> float:
        """Return how many seconds a repetition of a step of a node takes."""
        profile = self._state.profile
        return (profile.usual or 0.0) * node.pace + profile.restart

    def _is_source(self, position: Position) -> bool:
        """Whether a checkpoint is one that a step waits to be repeated from."""
        return any(
            audit.start == position.step and audit.path[0][0].holder(audit.start).id == position.node
            for audit in self._waiting
        )

    # Leases that train.

    def plan(self, lease: Lease) -> None:
        """Have a lease take fingerprints after the branches that it passes, if they are to be audited."""
        if self._policy is None or lease.peers:
            return
        for step in sorted(lease.saves):
            is_passed = lease.start < step < lease.end and lease.at <= step
            if is_passed and lease.node_at(step).has_branch(step) and step + 1 not in lease.fingerprints:
                if not self._is_due(lease, step + 1):
                    return
                lease.fingerprints.add(step + 1)
                deadline = self._state.deadlines.at(lease.study)
                self._planned[lease, step + 1] = lease.position(step), deadline

    def _is_due(self, lease: Lease, step: int) -> bool:
        assert self._policy is not None
        state = self._state
        open_ones = len(self._planned) + len(self._waiting) + self._running
        if open_ones + sum(fact.kind == "audit" for fact in state.plan.proofs) < _FIRST:
            return True
        spent = state.leases.proof_seconds + (open_ones + 1) * self._cost(lease.node_at(step))
        return spent <= self._policy.audit * state.leases.worker_seconds

    def fingerprinted(self, lease: Lease, event: StateFingerprinted) -> None:
        """A lease has said what its state is: if that is after a branch, the step to it can be repeated."""
        planned = self._planned.pop((lease, event.step), None)
        if planned is None:
            return
        source, deadline = planned
        fact = StateRecorded(lease.position(event.step), source, event.fingerprint.packed())
        if fact.position not in self._state.plan.fingerprints:
            self._state.plan.apply(fact)
            self._state.facts.append(fact)
            audit = self._audit(fact, lease.study)
            audit.fingerprinted_by, audit.deadline = lease.worker, deadline
            self._waiting.append(audit)

    def ended(self, lease: Lease) -> None:
        """A lease is over, or lost: fingerprints that it has not taken will not come."""
        self._planned = {place: at for place, at in self._planned.items() if place[0] is not lease}

    # The proofs.

    def next(self, urgent: bool) -> tuple[Repeat, int] | None:
        """Return a step that can be repeated now, and a worker for it: another than the first one."""
        state = self._state
        for audit in self._waiting:
            kept = audit.path[0][0].holder(audit.start).checkpoints.get(audit.start)
            if kept is None or self._is_late(audit):
                continue
            kinds = state.kinds_for(audit.path[-1][0])
            idle = state.workers.idle_for(audit.width, kept.platform or None, kinds)
            others = [worker for worker in idle if worker != audit.fingerprinted_by]
            if not others and not urgent and (state.workers.slots == 1 or not state.leases.training()):
                others = idle
            if others:
                self._waiting.remove(audit)
                self._running += 1
                return audit, others[0]
        return None

    def done(self, repeat: Repeat) -> None:
        """A step was repeated, or raised."""
        assert self._policy is not None
        assert isinstance(repeat, Audit)
        self._running -= 1
        plan, step = self._state.plan, repeat.path[-1][2]
        position = Position(repeat.path[-1][0].id, step)
        straight = Run("straight", 0)
        straight.add(step, Fingerprint.unpacked(plan.fingerprints[position].fingerprint), evaluated=False)
        if step in repeat.run.states:
            repeat.run.error = None  # of evaluate(), which was not called in training straight through
        repeat.earlier.append(repeat.run)
        runs = [straight, *repeat.earlier]
        platform = repeat.platform
        verdict = judge(self._policy.trainer, runs, self._state.required, *plan.left_out(platform))
        if verdict.doubtful and len(repeat.earlier) < _MOST_REPEATS:
            repeat.run = Run("repeated", repeat.start)
            self._waiting.append(repeat)
            return
        record(self._state, self._policy, "audit", position, verdict, platform)

    def lost(self, repeat: Repeat, reason: str) -> None:
        """A repetition was lost with its worker: it is open again, unless that happens all the time."""
        self._running -= 1
        if repeat.may_again(self._state.retries) and isinstance(repeat, Audit):
            self._waiting.append(repeat)
