"""The contract of a store of facts: append, read back in order, nothing else.

A store holds many plans. A plan is found by its key (what made it: trainer fingerprint, settings, seed).
One process at a time writes to a plan; any number may read it meanwhile.

Contract
--------
* What `write` returned from is there after any crash, of the process or of the machine.
* A write that raises has changed nothing, but for `ConnectionLost`: then nothing is known of it, and writing
  the very same facts again is safe, whether or not they were stored.
* Node ids are unique in a plan, and so are the orders of results: a second one is refused.
* A position holds at most one checkpoint: keeping another replaces it, dropping it removes it.
* A checkpoint that this store's own driver did not write is not read, where the plan is open for writing.
* A request that was made before, in all its parts, is the same fact and is kept once.
* Facts are numbered from 1 on, without gaps, in the order in which they were written: the plan's log. A fact
  keeps its number and what it says, but for the fingerprint of a state that was compared, which is let go.
* The log has an id, its incarnation. It is another one where the plan was removed and begun anew, where the
  store was restored from a copy, and where damaged facts were removed: numbers from before mean nothing then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hippotune.errors import StoreError
from hippotune.plan.facts import Fact, MeasuredSteps, NumbersRecorded, SpanRecorded

if TYPE_CHECKING:
    from hippotune.store.claim import SetAside
    from hippotune.store.storage import CheckpointStorage


class ConnectionLost(StoreError):
    """The database cannot be reached now; it may come back."""


class Written(NamedTuple):
    """Facts that are in the log now: the number of the first of them, and all of them, in order."""

    first: int
    facts: list[Fact]


class Store(ABC):
    """Base of all stores."""

    @property
    @abstractmethod
    def incarnation(self) -> str:
        """The id of the plan's log."""

    @property
    @abstractmethod
    def last_number(self) -> int:
        """The number of the last fact in the log; 0 where there is none."""

    @abstractmethod
    def facts(self, after: int = 0, limit: int | None = None) -> Iterator[tuple[int, Fact]]:
        """Yield the facts after a number, each with its own, up to the last one that there is at first.

        They are what was written, for showing and counting: a checkpoint in it may be gone by now, and is not
        to be loaded. Any process may read them while another one writes.
        """

    @abstractmethod
    def write(self, facts: Sequence[Fact]) -> Written:
        """Make facts durable, all or none, before returning; return those that are new.

        Called from one thread at a time.
        """

    @abstractmethod
    def read(self) -> Iterator[Fact]:
        """Yield the facts of the plan that are still so, in an order in which they can be replayed.

        Nodes come first, by id; then checkpoints; then metrics, failures and what was cleared of these, by
        order; then proofs, and states that are still to be compared; then requests, as they were made; then
        what studies and people did.
        Spans and logged numbers are many and nothing follows from them: `spans` and `logged` yield those.
        """

    @abstractmethod
    def spans(self) -> Iterator[SpanRecorded]:
        """Yield the worker time that was recorded, in the order in which it was."""

    def claim(self, files: CheckpointStorage, look_only: bool = False) -> SetAside | None:
        """See that a folder of checkpoints belongs to the plan, before anything is removed from it.

        Raises `StoreError` where it belongs to another store. Returns what was set aside; with `look_only`,
        what would be.
        """
        return None

    def drop_refused(self) -> int:
        """Drop the checkpoints that the last `read` found and refused; return how many there were."""
        return 0

    @abstractmethod
    def step_times(self) -> Iterator[MeasuredSteps]:
        """Yield what steps took by node and width, the least recently trained first.

        Spans without steps, or of which it is not known what their steps took, are passed over.
        """

    @abstractmethod
    def logged(self, node: int) -> Iterator[NumbersRecorded]:
        """Yield what training logged along a node, in the order in which it was recorded."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the plan. May be called twice."""
