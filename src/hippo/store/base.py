"""The contract of a store of facts: append, read back in order, nothing else.

A store holds many plans. A plan is found by its key (what made it: trainer fingerprint, settings, seed).
One process at a time writes to a plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from hippo.plan.facts import Fact


class Store(ABC):
    """Base of all stores."""

    @abstractmethod
    def write(self, facts: Sequence[Fact]) -> None:
        """Make facts durable, all or none, before returning. Called from one thread at a time."""

    @abstractmethod
    def read(self) -> Iterator[Fact]:
        """Yield all facts of the plan that are still so, in an order in which they can be replayed."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the plan. May be called twice."""
