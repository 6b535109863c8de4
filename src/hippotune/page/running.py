"""The page of a study that is tuned in this process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from hippotune.errors import InvalidInput
from hippotune.page.actions import PlanActions
from hippotune.page.server import PageServer
from hippotune.page.source import RunningPlan
from hippotune.plan.facts import StudyStopped
from hippotune.protocol.events import ActionTaken

if TYPE_CHECKING:
    from hippotune.shell.runtime import Runtime
    from hippotune.study.study import Study
    from hippotune.tuners.base import Tuner


class _Stop:
    """Ends the study that this process tunes, as Ctrl-C does; asked once more, it does nothing further."""

    def __init__(self, runtime: Runtime, study: str) -> None:
        self._runtime = runtime
        self._study = study
        self._is_asked = False

    async def __call__(self, study: str, by: str) -> None:
        if study != self._study:
            raise InvalidInput(f"study {study!r} is not tuned here; expected {self._study!r}")
        if not self._is_asked:
            self._is_asked = True
            await asyncio.to_thread(self._runtime.ask, partial(self._record_stop, by))
            os.kill(os.getpid(), signal.SIGINT)

    def _record_stop(self, by: str) -> None:
        loop = self._runtime.loop
        loop.handle(ActionTaken(StudyStopped(self._study, loop.executor.now(), by)))


@contextmanager
def source_of(study: Study, tuner: Tuner) -> Iterator[RunningPlan]:
    """Give the facts of a study's plan, which this process trains, as long as the block runs."""
    runtime = study._connection.open()
    identity = study._connection.identity
    assert identity is not None
    about = {
        "plan": identity.key.digest,
        "trainer": identity.key.trainer,
        "study": study.name,
        "studies": [{"name": study.name, "metric": tuner.metric, "mode": tuner.mode}],
    }
    source = RunningPlan(runtime, about)
    try:
        yield source
    finally:
        source.close()


@contextmanager
def page_of(study: Study, tuner: Tuner, port: int | None = None) -> Iterator[PageServer]:
    """Serve the page of a study as long as the block runs."""
    with source_of(study, tuner) as source:
        runtime = source.runtime
        with PageServer(
            source.about()["plan"],
            source,
            study.home,
            port,
            actions=lambda feed: PlanActions(runtime, feed, _Stop(runtime, study.name)),
        ) as server:
            yield server
