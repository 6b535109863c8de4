"""The page of a study that is tuned in this process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from hippotune.page.server import PageServer
from hippotune.page.source import RunningPlan

if TYPE_CHECKING:
    from hippotune.page.actions import PlanActions
    from hippotune.page.feed import Feed
    from hippotune.shell.runtime import Runtime
    from hippotune.study.study import Study
    from hippotune.tuners.base import Tuner


def _actions(runtime: Runtime, feed: Feed) -> PlanActions:
    from hippotune.page.actions import PlanActions

    return PlanActions(runtime, feed, lambda study: os.kill(os.getpid(), signal.SIGINT))  # as Ctrl-C does


@contextmanager
def page_of(study: Study, tuner: Tuner, port: int | None = None) -> Iterator[PageServer]:
    """Serve the page of a study as long as the block runs."""
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
        made = partial(_actions, runtime)
        with PageServer(identity.key.digest, source, study.home, port, actions=made) as server:
            yield server
    finally:
        source.close()
