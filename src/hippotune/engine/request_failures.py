"""Requests that cannot be met: finds them, and answers them with the error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hippotune.engine.lease import Lease
from hippotune.engine.requests import RequestEvents
from hippotune.engine.state import State
from hippotune.plan.facts import Position
from hippotune.plan.node import Failure, Node
from hippotune.protocol.commands import Abort
from hippotune.protocol.events import LeaseFailed, RequestWithdrawn
from hippotune.protocol.failures import metrics_lacking


@dataclass(eq=False, repr=False)
class RequestFailures:
    """Answers the requests that have to fail, and records why."""

    _state: State
    _requests: RequestEvents

    def fail(
        self, node: Node, step: int, error: str, lease: Lease | None = None, suspended: bool = False
    ) -> None:
        """Training along `node` cannot reach `step`: all requests fail that have to pass there.

        Those that go on from a later checkpoint, or that a lease other than `lease` is about to meet, need
        not. Where it is `suspended`, the failed ones may be met after a user retries it.
        """
        state = self._state
        state.facts.append(state.plan.fail(Position(node.id, step), error, suspended, time=state.now))
        failure = Failure(step, state.plan.order, error, suspended)
        stack = [(node, step)]
        while stack:
            along, reach = stack.pop()
            end = min((at for at in along.checkpoints if at >= reach), default=math.inf)
            failing = {
                number: None
                for at, want in state.frontier.wants.get(along, {}).items()
                if reach <= at < end and not self._is_coming(along, at, lease)
                for number in want.requests
            }
            for number in failing:
                request = state.requests[number]
                self._requests.close(request)
                state.commands.append(request.failed(failure))
            for branch in (reach, *along.branch_steps(reach)):
                if branch >= end:
                    break
                stack += [(child, child.start) for child in state.frontier.live_branches(along, branch)]

    def refuse_lacking(self, metrics: Mapping[str, float]) -> None:
        """End the studies whose tuners read what evaluate() never returns; else only a trial lacks it."""
        state = self._state
        state.returned.update(metrics)
        for study, needed in list(state.requirements.items()):
            if missing := state.never_returned(needed - metrics.keys()):
                del state.requirements[study]
                self._refuse(frozenset({study}), metrics_lacking(missing, metrics))

    def refuse_at_fault(self, lease: Lease, event: LeaseFailed) -> None:
        """End the studies whose requests no trial can meet; other studies on the plan go on.

        Where metrics are missing, these are the studies that read them; they may have ended by now. Where
        other trials have these metrics, only this trial lacks them: it is trained, and fails alone.
        """
        studies = frozenset(lease.payers) or frozenset({lease.study})
        if event.missing:
            requirements, missing = self._state.requirements, self._state.never_returned(event.missing)
            studies = frozenset(study for study, metrics in requirements.items() if metrics & missing)
            for study in studies:
                del requirements[study]
        if studies:
            self._refuse(studies, event.error)

    def _refuse(self, studies: frozenset[str], error: str) -> None:
        """Studies ask for what the trainer cannot do: end them, and withdraw their requests."""
        state = self._state
        theirs = [number for number, each in state.requests.items() if each.request.study in studies]
        for number in theirs:
            self._requests.request_withdrawn(RequestWithdrawn(number))
        state.commands.append(Abort(error, studies=studies))

    def cannot_measure(self, node: Node, step: int, error: str) -> None:
        """Evaluation fails at a step: all requests fail that need metrics there; others may pass."""
        state = self._state
        state.facts.append(state.plan.fail(Position(node.id, step), error, evaluation=True, time=state.now))
        want = state.frontier.wants.get(node, {}).get(step)
        for number in list(want.requests if want is not None else ()):
            request = state.requests[number]
            self._requests.close(request)
            state.commands.append(request.failed(node.unmeasured[step]))

    def _is_coming(self, node: Node, step: int, but: Lease | None) -> bool:
        """Whether a lease, other than one, will bring metrics."""
        return any(lease is not but for lease in self._state.promises.evaluations.at(node, step))
