"""What a report reads from the store of its plan, when it is asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hippotune.history.logged import Logged, LoggedNumbers
from hippotune.plan.facts import SpanRecorded
from hippotune.plan.node import Node
from hippotune.store.base import Store
from hippotune.store.memory import MemoryStore

if TYPE_CHECKING:
    from hippotune.study.study import Study


def read_spans(study: Study, store: Store) -> list[SpanRecorded]:
    """Return the worker time of the study's plan."""
    with reading_plan(study, store) as plan:
        return list(plan.spans())


def read_logged(study: Study, store: Store, node: Node, step: int) -> Logged:
    """Return what training logged on the way to a state."""
    with reading_plan(study, store) as plan:
        return LoggedNumbers(plan).along(node, step)


@contextmanager
def reading_plan(study: Study, store: Store) -> Iterator[Store]:
    """Open the store of a plan for reading; it may have been closed by now."""
    if isinstance(store, MemoryStore):
        yield store
        return
    from hippotune.store.catalog import open_store
    from hippotune.store.sql import SqlStore

    assert isinstance(store, SqlStore)
    with open_store(study.home, study._store_url, create=False) as catalog:
        yield catalog.view(store.key)
