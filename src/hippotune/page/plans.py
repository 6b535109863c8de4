"""All plans of a home, for a server that has some of them open: each has its page, whether it is open or not.

Facts are read from the store, so that a page does not notice when its plan is opened or closed; what is no
fact comes from the plan itself, while it is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hippotune.page.actions import Check, PlanActions, Stop
from hippotune.page.feed import PageFeed
from hippotune.page.pulse import Pulses
from hippotune.page.source import StoredPlan
from hippotune.shell.runtime import Runtime

if TYPE_CHECKING:
    from hippotune.store.catalog import Catalog, StudyInfo

_EVERY = 0.25


class HomePlans:
    """The plans of a store, which is opened when the first page is asked for.

    `running` returns the runtime of one that is open, `stop` ends a study, and `check` raises where a visitor
    may not act for one.
    """

    def __init__(
        self,
        open_catalog: Callable[[], Catalog],
        home: Path,
        running: Callable[[str], Runtime | None],
        stop: Stop,
        check: Check = lambda *_: None,
    ) -> None:
        self._open_catalog = open_catalog
        self._home = home
        self._running = running
        self._stop = stop
        self._check = check
        self._feeds: dict[str, PageFeed] = {}
        self._wanted: set[str] = set()

    @cached_property
    def _catalog(self) -> Catalog:
        return self._open_catalog()

    async def feed(self, plan: str) -> PageFeed | None:
        """Return the feed of a plan, by its digest."""
        self._wanted.add(plan)
        if plan not in self._feeds:
            info = await asyncio.to_thread(self._find, plan)
            if info is None:
                return None
            source = _HomePlan(self._catalog, info, self._home, lambda: self._running(plan))
            self._feeds.setdefault(plan, PageFeed(source, _EVERY))
        return self._feeds[plan]

    def _find(self, plan: str) -> StudyInfo | None:
        return next((info for info in self._catalog.studies() if info.key.digest == plan), None)

    def first(self) -> str | None:
        """Return the plan that was used last."""
        used = max(self._catalog.studies(), key=lambda info: info.used, default=None)
        return None if used is None else used.key.digest

    def actions(self, plan: str) -> PlanActions | None:
        """Return what can be done on a plan, while it is open."""
        runtime, feed = self._running(plan), self._feeds.get(plan)
        if runtime is None or feed is None:
            return None
        return PlanActions(runtime, feed, self._stop, self._check)

    async def close_unused(self) -> None:
        """Forget plans that have no followers, and were not asked for since this was last called."""
        for plan, feed in list(self._feeds.items()):
            if not feed.followers and plan not in self._wanted:
                del self._feeds[plan]
                await feed.close()
        self._wanted.clear()

    async def close(self) -> None:
        """Let all followers go, and the store."""
        for feed in self._feeds.values():
            await feed.close()
        if "_catalog" in self.__dict__:
            self._catalog.close()


class _HomePlan(StoredPlan):
    """A plan in a store that may be open in this process."""

    def __init__(
        self, catalog: Catalog, info: StudyInfo, home: Path, running: Callable[[], Runtime | None]
    ) -> None:
        super().__init__(catalog, info, home)
        self._running = running
        self._pulses = Pulses()

    def about(self) -> dict[str, Any]:
        """Say what the plan is, and which others there are."""
        others = [each for each in self._catalog.studies() if each.key != self._info.key]
        plans = [{"plan": each.key.digest, "name": each.name} for each in others]
        return {**super().about(), "others": plans}

    def pulse(self) -> dict[str, Any] | None:
        """Look on the engine's thread, where there is one."""
        runtime = self._running()
        return None if runtime is None else self._pulses.of(runtime)
