"""Open requests: what each still waits for, and when it is answered in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hippotune.plan.node import Failure, Node
from hippotune.protocol.commands import Answer
from hippotune.protocol.events import Request


@dataclass(slots=True, eq=False)
class OpenRequest:
    """A request and the step counts at which metrics are still missing, with the nodes that they are on.

    Reports along the way are answered as they come; the final answer is given last, when nothing is
    missing. `order` is the latest place in the plan's history of anything that it waited for.
    """

    request: Request
    node: Node
    missing: dict[int, Node] = field(default_factory=dict)
    order: int = 0

    def keeps(self, step: int) -> bool:
        """Whether a step is the last one, and its checkpoint is asked for too."""
        return self.request.keep and step == self.request.step

    def arrived(self, step: int, order: int, metrics: Mapping[str, float]) -> Answer | None:
        """Take in metrics at a step; return the answer if it is a report along the way."""
        self.missing.pop(step, None)
        self.order = max(self.order, order)
        if step == self.request.step:
            return None
        return Answer(self.request.id, step, order, metrics, None, final=False)

    def concluded(self, metrics: Mapping[str, float]) -> Answer:
        """Return the final answer."""
        return Answer(self.request.id, self.request.step, self.order, metrics, None, final=True)

    def failed(self, failure: Failure) -> Answer:
        """Return the answer for a request that cannot be met."""
        order = max(failure.order, self.order)
        return Answer(self.request.id, failure.step, order, None, failure.error, True, failure.suspended)
