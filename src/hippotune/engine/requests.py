"""What tuners ask for: requests come in, wait for what they miss, and are answered or fail."""

from __future__ import annotations

import math

from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.lease import Lease
from hippotune.engine.open_request import OpenRequest
from hippotune.engine.orders import Orders
from hippotune.engine.proofs import Proofs
from hippotune.engine.state import State
from hippotune.plan.facts import Fact, Position, RequestMade
from hippotune.plan.node import Failure, Node
from hippotune.protocol.commands import Abort
from hippotune.protocol.events import (
    BranchesForeseen,
    ConfigsForeseen,
    GroupSubmitted,
    Request,
    RequestWithdrawn,
    WorthChanged,
)


class Requests:
    """Handles the events of tuners, and answers them."""

    def __init__(self, state: State, orders: Orders, checkpoints: Checkpoints, proofs: Proofs) -> None:
        self._state = state
        self._orders = orders
        self._checkpoints = checkpoints
        self._proofs = proofs

    # Events.

    def group_submitted(self, event: GroupSubmitted) -> None:
        """Requests that were made together."""
        for request in event.requests:
            self._submit(request)

    def configs_foreseen(self, event: ConfigsForeseen) -> None:
        """Configs that may be asked for later: running leases save where they part."""
        for config in event.configs:
            self._grown(*self._state.plan.place(config, event.step))

    def branches_foreseen(self, event: BranchesForeseen) -> None:
        """Steps at which others may leave a config: leases that pass them save there."""
        node, facts = self._state.plan.place(event.config, max(event.steps))
        self._grown(node, facts)
        for step in event.steps:
            holder = node.holder(step)
            self._state.likely_branches.setdefault(holder, set()).add(step)
            self._orders.entrust(holder, step, evaluate=False, save=True)

    def request_withdrawn(self, event: RequestWithdrawn) -> None:
        """A request is not waited for any more; leases that were for it alone stop."""
        self._checkpoints.unpin(event.request)
        if (request := self._state.requests.get(event.request)) is not None:  # not answered meanwhile
            self._close(request)
            for node in request.node.lineage():
                for lease in self._state.leases.on(node):
                    self._orders.shorten(lease)

    def worth_changed(self, event: WorthChanged) -> None:
        """A study thinks otherwise of its open requests."""
        known = self._state.requests
        self._state.worths.update(
            (number, worth) for number, worth in event.worths.items() if number in known
        )

    # A request comes in.

    def _submit(self, request: Request) -> None:
        state = self._state
        node, facts = state.plan.place(request.config, request.step, request.isolation_key)
        self._grown(node, facts)
        state.facts.append(RequestMade(request.study, request.trial, request.config, request.step))
        waiting = state.requests[request.id] = OpenRequest(request, node)
        self._proofs.rehearsal.asked(node, request.step, request.study)
        if request.keep:
            self._checkpoints.pin(request.id, node.position(request.step))
        steps = {step: node.holder(step) for step in sorted({*request.reports, request.step})}
        failures = [on.unmeasured[at] for at, on in steps.items() if at in on.unmeasured]
        if (hindrance := state.plan.failure_on_the_way(node, request.step)) is not None:
            failures.append(hindrance)
        failure = min(failures, key=lambda each: each.order, default=None)
        if failure is not None:
            known = {at: on for at, on in steps.items() if self._was_known(waiting, on, at, failure)}
            failure, steps = (None if known.keys() == steps.keys() else failure), known
        for step, holder in steps.items():
            self._ask(waiting, holder, step)
        if failure is None:
            self._conclude(waiting)
        else:
            state.commands.append(state.requests.pop(request.id).failed(failure))

    def _was_known(self, waiting: OpenRequest, node: Node, step: int, failure: Failure) -> bool:
        """Whether there was an answer at a step before a failure: it was told then, and is told again."""
        known = node.metrics.get(step)
        is_kept = step in node.checkpoints or not waiting.keeps(step)
        return known is not None and known[0] < failure.order and is_kept

    def _grown(self, node: Node, facts: list[Fact]) -> None:
        """A config was placed in the plan: where it leaves what runs, its lease saves."""
        if facts:
            self._state.facts += facts
            if node.parent is not None:
                self._orders.entrust(node.parent, node.start, evaluate=False, save=True)

    def _ask(self, waiting: OpenRequest, node: Node, step: int) -> None:
        """Have a request wait for a step, unless what it needs there is known."""
        request, final = waiting.request, step == waiting.request.step
        known = node.metrics.get(step)
        if known is not None and not (waiting.keeps(step) and step not in node.checkpoints):
            self._arrived(waiting, node, step)
            return
        waiting.missing[step] = node
        if known is not None and self._state.promises.wait_for_save(node, step, request.id, request.study):
            return
        self._state.frontier.ask(node, step, request.id, final, request.study)
        self._orders.entrust(node, step, evaluate=True, save=final)

    # A request is answered.

    def measured(self, node: Node, step: int) -> None:
        """There are metrics at a step: answer the requests that waited for them."""
        state = self._state
        for number in state.frontier.settle(node, step):
            waiting = state.requests[number]
            study = waiting.request.study
            if waiting.keeps(step) and step not in node.checkpoints:
                if not state.promises.wait_for_save(node, step, number, study):
                    state.frontier.ask(node, step, number, True, study)
                continue
            self._arrived(waiting, node, step)
            self._conclude(waiting)

    def saved(self, numbers: list[int], node: Node, step: int) -> None:
        """There is a checkpoint that requests with their metrics have waited for."""
        for number in numbers:
            waiting = self._state.requests[number]
            self._arrived(waiting, node, step)
            self._conclude(waiting)

    def _arrived(self, waiting: OpenRequest, node: Node, step: int) -> None:
        answer = waiting.arrived(step, *node.metrics[step])
        if answer is not None:
            self._state.commands.append(answer)

    def _conclude(self, waiting: OpenRequest) -> None:
        if not waiting.missing:
            step = waiting.request.step
            self._close(waiting)
            self._state.commands.append(waiting.concluded(waiting.node.holder(step).metrics[step][1]))

    def _close(self, waiting: OpenRequest) -> None:
        """A request is open no more: nothing is done for it alone."""
        number = waiting.request.id
        del self._state.requests[number]
        self._state.worths.pop(number, None)
        for step, node in waiting.missing.items():
            self._state.promises.withdraw(node, step, number)

    # A request fails.

    def fail(
        self, node: Node, step: int, error: str, lease: Lease | None = None, suspended: bool = False
    ) -> None:
        """Training along `node` cannot reach `step`: all requests fail that have to pass there.

        Those that go on from a later checkpoint, or that a lease other than `lease` is about to meet, need
        not. Where it is `suspended`, the others may be met after somebody has it retried.
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
                self._close(request)
                state.commands.append(request.failed(failure))
            for branch in (reach, *along.branch_steps(reach)):
                if branch >= end:
                    break
                stack += [(child, child.start) for child in state.frontier.live_branches(along, branch)]

    def refuse(self, studies: frozenset[str], error: str) -> None:
        """Studies ask for what the trainer cannot do: they end, and what they ask for is withdrawn."""
        state = self._state
        theirs = [number for number, each in state.requests.items() if each.request.study in studies]
        for number in theirs:
            self.request_withdrawn(RequestWithdrawn(number))
        state.commands.append(Abort(error, studies=studies))

    def cannot_measure(self, node: Node, step: int, error: str) -> None:
        """Evaluation fails at a step: all requests fail that need metrics there; others may pass."""
        state = self._state
        state.facts.append(state.plan.fail(Position(node.id, step), error, evaluation=True, time=state.now))
        want = state.frontier.wants.get(node, {}).get(step)
        for number in list(want.requests if want is not None else ()):
            request = state.requests[number]
            self._close(request)
            state.commands.append(request.failed(node.unmeasured[step]))

    def _is_coming(self, node: Node, step: int, but: Lease | None) -> bool:
        """Whether a lease, other than one, will bring metrics."""
        return any(lease is not but for lease in self._state.promises.evaluations.at(node, step))
