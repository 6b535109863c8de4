"""That a study is tuned, and how that ended, as facts of its plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hippotune.plan.facts import StudyBegan, StudyEnded
from hippotune.protocol.events import ActionTaken
from hippotune.shell.runtime import Runtime
from hippotune.study.limits import Limits
from hippotune.tuners.base import Tuner

if TYPE_CHECKING:
    from hippotune.study.tuning import Tuning


@contextmanager
def recorded(runtime: Runtime, study: str, tuner: Tuner, limits: Limits, tuning: Tuning) -> Iterator[None]:
    """Record that a tuning begins and, however the block is left, how it ended."""
    loop, number = runtime.loop, runtime.plan.next_tuning(study)
    now = loop.executor.now()
    began = StudyBegan(study, number, now, tuner.metric, tuner.mode, definition_of(tuner, limits))
    loop.handle(ActionTaken(began))
    runtime.tuned[study] = began

    def end(outcome: str, text: str) -> None:
        if runtime.tuned.get(study) is began:
            del runtime.tuned[study]
            loop.handle(ActionTaken(StudyEnded(study, number, loop.executor.now(), outcome, text)))

    with ending(tuning, end):
        yield


@contextmanager
def ending(tuning: Tuning, end: Callable[[str, str], None]) -> Iterator[None]:
    """Tell `end`, however the block is left, how a tuning ended, and why."""
    outcome, text = "failed", ""
    try:
        yield
        outcome = tuning.ended_by or "finished"
    except asyncio.CancelledError:
        outcome = "interrupted"
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise
    finally:
        end(outcome, text)


def definition_of(tuner: Tuner, limits: Limits) -> dict[str, Any]:
    """Return what the log says of a tuning."""
    said: dict[str, Any] = {"tuner": type(tuner).__name__}
    if limits.seconds is not None:
        said["seconds"] = limits.seconds
    if limits.worker_seconds is not None:
        said["worker_seconds"] = limits.worker_seconds
    return said
