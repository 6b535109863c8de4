"""What tuners ask for: requests come in, wait for what they miss, and are answered or fail."""

from __future__ import annotations

from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.open_request import OpenRequest
from hippotune.engine.orders import Orders
from hippotune.engine.state import State
from hippotune.plan.facts import Fact, Position, RequestMade
from hippotune.plan.node import Node
from hippotune.protocol.events import (
    ConfigsForeseen,
    GroupSubmitted,
    Request,
    RequestWithdrawn,
    WorthChanged,
)


class Requests:
    """Handles the events of tuners, and answers them."""

    def __init__(self, state: State, orders: Orders, checkpoints: Checkpoints) -> None:
        self._state = state
        self._orders = orders
        self._checkpoints = checkpoints

    # Events.

    def group_submitted(self, event: GroupSubmitted) -> None:
        """Requests that were made together."""
        for request in event.requests:
            self._submit(request)

    def configs_foreseen(self, event: ConfigsForeseen) -> None:
        """Configs that may be asked for later: running leases save where they part."""
        for config in event.configs:
            self._grown(*self._state.plan.place(config, event.step))

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
        if request.keep:
            self._checkpoints.pin(request.id, node.position(request.step))
        failure = state.plan.failure_on_the_way(node, request.step)
        if failure is not None:
            state.commands.append(state.requests.pop(request.id).failed(request.step, *failure))
            return
        for step in sorted({*request.reports, request.step}):
            self._ask(waiting, node.holder(step), step)
        self._conclude(waiting)

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

    def fail(self, node: Node, step: int, error: str) -> None:
        """Training along `node` cannot reach `step`: all requests fail that have to pass there."""
        state = self._state
        state.facts.append(state.plan.fail(Position(node.id, step), error))
        order = state.plan.order
        stack = [(node, step)]
        while stack:
            along, reach = stack.pop()
            wants = state.frontier.wants.get(along, {})
            failing = {number: None for at, want in wants.items() if at >= reach for number in want.requests}
            for number in failing:
                request = state.requests[number]
                self._close(request)
                state.commands.append(request.failed(step, order, error))
            for branch in (reach, *along.branch_steps(reach)):
                stack += [(child, child.start) for child in state.frontier.live_branches(along, branch)]
