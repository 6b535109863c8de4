"""One trial of a study, as it is in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hippotune.plan.node import Node
from hippotune.sequences.config import Config

Metrics = Mapping[str, float]
State = Literal["done", "unfinished", "failed", "suspended"]


@dataclass(frozen=True, slots=True)
class TrialHistory:
    """One trial.

    Attributes
    ----------
    number : int
        Its number in the tuning that first asked for it. Tunings count on their own, so that a study which
        was tuned by several tuners may have numbers that come more than once.
    config : Config
        Its config.
    steps : tuple[int, ...]
        The steps that it was asked for, in order.
    trained : int
        How far it is trained, for this study or another one, up to the last of them.
    error : str | None
        What keeps it from getting there.
    suspended : bool
        Whether that is for lost workers, and waits to be retried.
    node : Node
        Where it is in the plan when it gets there.
    """

    number: int
    config: Config
    steps: tuple[int, ...]
    trained: int
    error: str | None
    suspended: bool
    node: Node

    @property
    def asked(self) -> int:
        """The furthest step that it was asked for."""
        return self.steps[-1]

    @property
    def state(self) -> State:
        """Whether it reached the requested step, has not yet, never will, or not before it is retried.

        One that is unfinished may still be waited for, or withdrawn, or its study was interrupted: what is
        stored is the same.
        """
        if self.error is not None:
            return "suspended" if self.suspended else "failed"
        return "done" if self.at(self.asked) is not None else "unfinished"

    def at(self, step: int) -> Metrics | None:
        """Return what was measured at a step."""
        known = self.node.holder(step).metrics.get(step)
        return None if known is None else known[1]

    def metrics(self) -> dict[int, Metrics]:
        """Return all metrics along its path, by step, in order."""
        found: dict[int, Metrics] = {}
        reach = self.asked
        for node in self.node.lineage():
            found.update((step, known) for step, (_, known) in node.metrics.items() if step <= reach)
            reach = node.start
        return dict(sorted(found.items()))

    def last(self) -> tuple[int, Metrics] | None:
        """Return the furthest step with metrics, and those."""
        reach = self.asked
        if (metrics := self.at(reach)) is not None:
            return reach, metrics
        for node in self.node.lineage():
            step = max((step for step in node.metrics if step <= reach), default=None)
            if step is not None:
                return step, node.metrics[step][1]
            reach = node.start
        return None
