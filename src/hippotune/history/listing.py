"""The studies of a store in short, each with its best result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hippotune import short
from hippotune.errors import StoreError
from hippotune.history.studies import asked_as, read_study
from hippotune.plan.trials import trials_of
from hippotune.store.catalog import latest

if TYPE_CHECKING:
    from hippotune.store.catalog import Catalog, StudyInfo


@dataclass(frozen=True, slots=True)
class Listed:
    """A study: how much it asked for, how much its plan holds, and its best result in words."""

    info: StudyInfo
    trials: int
    results: int
    bytes: int
    best: str


def listing(catalog: Catalog) -> list[Listed]:
    """Return the studies of a store, the last used first."""
    totals = catalog.totals()
    found = []
    for info in latest(catalog.studies()):
        (name, share), held = asked_as(info), totals[info.key]
        asked = held.asked.get(name, ())
        trials = len(set(trials_of(asked).values())) if share else len(asked)
        found.append(Listed(info, trials, held.results, held.bytes, _best(catalog, info)))
    return found


def _best(catalog: Catalog, info: StudyInfo) -> str:
    """Return the best result, where it is known by what, and where it can be read."""
    if info.metric is None:
        return ""
    try:
        history = read_study(catalog, info)
    except StoreError:
        return ""
    aim = history.aim()
    best = None if aim is None else history.best(*aim)
    if best is None:
        return ""
    value = f"{info.metric} {short.metric(best.metrics[info.metric])}"
    return value if history.is_proved else f"{value}, not proved"
