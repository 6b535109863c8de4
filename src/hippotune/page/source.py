"""Where a page's facts come from: a plan that is trained in this process, or a store that others write to.

All methods are called from one thread at a time, and may take their time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hippotune.executors.lease_log import FOLDER
from hippotune.history.logged import LoggedNumbers
from hippotune.history.printed import printed, reaches_of
from hippotune.page.about import about_plan
from hippotune.page.columns import finite, snapshot
from hippotune.page.pulse import Pulses
from hippotune.plan.facts import Fact
from hippotune.plan.node import Node
from hippotune.shell.runtime import Runtime
from hippotune.store.base import Store
from hippotune.store.files import checkpoint_folder

if TYPE_CHECKING:
    from hippotune.store.catalog import Catalog, StudyInfo

_MOST_LINES = 400


class Source(Protocol):
    """A plan to show."""

    def incarnation(self) -> str:
        """Return the id of the plan's log: numbers of another one mean nothing."""

    def about(self) -> dict[str, Any]:
        """Say what the plan is, and what its studies are after."""

    def facts(self, after: int) -> Iterable[tuple[int, Fact]]:
        """Return the facts after a number, each with its own, in order."""

    def pulse(self) -> dict[str, Any] | None:
        """Return how things are now, beside the facts; None where nothing runs that could say so."""

    def detail(self, node: Node, step: int) -> dict[str, Any]:
        """Return what training has logged and printed on the way to a step of a node."""


class StoredPlan:
    """A plan in a store, which another process may be writing to."""

    def __init__(self, catalog: Catalog, info: StudyInfo, home: Path) -> None:
        self._catalog = catalog
        self._info = info
        self._logs = checkpoint_folder(home, info.key) / FOLDER
        self._store = catalog.view(info.key)

    def incarnation(self) -> str:
        """Return the id of the plan's log."""
        return self._store.incarnation

    def about(self) -> dict[str, Any]:
        """Say what the plan is."""
        return about_plan(self._info, self._catalog.studies())

    def facts(self, after: int) -> Iterator[tuple[int, Fact]]:
        """Read what was written since."""
        return self._store.facts(after)

    def pulse(self) -> dict[str, Any] | None:
        """Nothing is known but what is stored."""
        return None

    def detail(self, node: Node, step: int) -> dict[str, Any]:
        """Read numbers from the store, and lines from the logs of leases."""
        return detail_of(self._store, self._logs, node, step)


def detail_of(store: Store, logs: Path, node: Node, step: int) -> dict[str, Any]:
    """Return what was logged and printed on the way to a step; numbers that are not finite are None."""
    lines = list(printed(logs, reaches_of(node, step)))
    logged = LoggedNumbers(store).along(node, step)
    return {
        "logged": {name: [(at, finite(number)) for at, number in rows] for name, rows in logged.items()},
        "printed": lines[-_MOST_LINES:],
        "left_out": max(len(lines) - _MOST_LINES, 0),
    }


def whole(source: Source) -> dict[str, Any]:
    """Return all that there is of a plan, as the page takes it in."""
    facts = list(source.facts(0))
    number = facts[-1][0] if facts else 0
    columns = snapshot(fact for _, fact in facts)
    return {
        "about": source.about(),
        "columns": columns,
        "incarnation": source.incarnation(),
        "number": number,
    }


class RunningPlan:
    """A plan that is trained in this process: told of facts when they are durable, whatever the store."""

    def __init__(self, runtime: Runtime, about: dict[str, Any]) -> None:
        self.runtime = runtime
        self._about = about
        self._pulses = Pulses()
        self._told: deque[tuple[int, Fact]] = deque()
        self._unfollow = runtime.ask(lambda: runtime.loop.log.follow(self._hear))
        self._incarnation = runtime.store.incarnation

    def _hear(self, first: int, facts: Iterable[Fact]) -> None:
        self._told.extend(enumerate(facts, first))

    def incarnation(self) -> str:
        """Return the id of the plan's log."""
        return self._incarnation

    def about(self) -> dict[str, Any]:
        """Say what the plan is."""
        return self._about

    def facts(self, after: int) -> Iterator[tuple[int, Fact]]:
        """Return what was there at first from the store, and from then on what was told."""
        if after == 0:
            for number, fact in self.runtime.store.facts():
                after = number
                yield number, fact
        while self._told:
            number, fact = self._told.popleft()
            if number > after:
                yield number, fact

    def pulse(self) -> dict[str, Any] | None:
        """Look on the engine's thread."""
        return self._pulses.of(self.runtime)

    def detail(self, node: Node, step: int) -> dict[str, Any]:
        """Read numbers from the store, and lines from the logs of leases."""
        return detail_of(self.runtime.store, self.runtime.place[0] / FOLDER, node, step)

    def close(self) -> None:
        """Hear no more."""
        self._unfollow()
