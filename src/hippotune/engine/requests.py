"""Handles requests: they come in, wait for what is missing, and are answered."""

from __future__ import annotations

from dataclasses import dataclass

from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.lease_updates import LeaseUpdates
from hippotune.engine.open_request import OpenRequest
from hippotune.engine.proofs import Proofs
from hippotune.engine.state import State
from hippotune.gc_pause import gc_paused
from hippotune.plan.facts import Fact, RequestMade
from hippotune.plan.node import Failure, Node
from hippotune.protocol.events import (
    BranchesForeseen,
    ConfigsForeseen,
    GroupSubmitted,
    Request,
    RequestWithdrawn,
    WorthChanged,
)


@dataclass(eq=False, repr=False)
class RequestEvents:
    """Handles the events of tuners, and answers them."""

    _state: State
    _updates: LeaseUpdates
    _checkpoints: Checkpoints
    _proofs: Proofs

    # Events.

    def group_submitted(self, event: GroupSubmitted) -> None:
        """Requests that were made together."""
        with gc_paused():
            for request in event.requests:
                self._submit(request)

    def configs_foreseen(self, event: ConfigsForeseen) -> None:
        """Configs that may be requested later: running leases save where these branch off."""
        for config in event.configs:
            self._grown(*self._state.plan.place(config, event.step))

    def branches_foreseen(self, event: BranchesForeseen) -> None:
        """Steps at which other configs may branch off: leases that pass them save there."""
        node, facts = self._state.plan.place(event.config, max(event.steps))
        self._grown(node, facts)
        for step in event.steps:
            holder = node.holder(step)
            self._state.likely_branches.setdefault(holder, set()).add(step)
            self._updates.entrust(holder, step, evaluate=False, save=True)

    def request_withdrawn(self, event: RequestWithdrawn) -> None:
        """A request is not waited for any more; leases that were for it alone stop."""
        self._checkpoints.unpin(event.request)
        if (request := self._state.requests.get(event.request)) is not None:  # not answered meanwhile
            self.close(request)
            for node in request.node.lineage():
                for lease in self._state.leases.on(node):
                    self._updates.shorten(lease)

    def worth_changed(self, event: WorthChanged) -> None:
        """A study gives its open requests other values."""
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
        """Whether a step was answered before a failure: then it is answered again."""
        known = node.metrics.get(step)
        is_kept = step in node.checkpoints or not waiting.keeps(step)
        return known is not None and known[0] < failure.order and is_kept

    def _grown(self, node: Node, facts: list[Fact]) -> None:
        """A config was placed in the plan: a lease that runs past its branch saves there."""
        if facts:
            self._state.facts += facts
            if node.parent is not None:
                self._updates.entrust(node.parent, node.start, evaluate=False, save=True)

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
        self._updates.entrust(node, step, evaluate=True, save=final)

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
            self.close(waiting)
            self._state.commands.append(waiting.concluded(waiting.node.holder(step).metrics[step][1]))

    def close(self, waiting: OpenRequest) -> None:
        """A request is open no more: nothing is done for it alone."""
        number = waiting.request.id
        del self._state.requests[number]
        self._state.worths.pop(number, None)
        for step, node in waiting.missing.items():
            self._state.promises.withdraw(node, step, number)
