"""Studies in a store, by name.

A study whose trials do not share is listed with a remark: it has a plan of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hippotune.errors import InvalidInput
from hippotune.history.history import History

if TYPE_CHECKING:
    from hippotune.store.catalog import Catalog, StudyInfo

_ALONE = " (share=False)"


def find_study(catalog: Catalog, name: str, plan: str | None = None) -> StudyInfo:
    """Return a study by its name, on the plan that it used last or on the one that begins with `plan`."""
    return chosen_study(catalog.studies(), name, plan)


def chosen_study(studies: Sequence[StudyInfo], name: str, plan: str | None) -> StudyInfo:
    """Return one of several entries, in which the last used come first."""
    mine = [info for info in studies if info.name == name]
    if not mine:
        known = ", ".join(dict.fromkeys(info.name for info in studies)) or "none"
        raise InvalidInput(f"there is no study {name!r} in the store; its studies are: {known}")
    for info in mine:
        if plan is None or info.key.digest.startswith(plan):
            return info
    known = ", ".join(info.key.digest for info in mine)
    raise InvalidInput(f"study {name!r} has no plan that begins with {plan!r}; its plans are: {known}")


def read_study(catalog: Catalog, info: StudyInfo) -> History:
    """Read a study of a store."""
    return History(catalog.view(info.key), *asked_as(info), (info.metric, info.mode))


def listed_as(study: str, share: bool) -> str:
    """Return the name under which a store lists a study: one whose trials do not share has a remark to it."""
    return study if share else study + _ALONE


def asked_as(info: StudyInfo) -> tuple[str, bool]:
    """Return the name under which a study that is listed asks for trials, and whether they share."""
    name = info.name.removesuffix(_ALONE)
    if name != info.name and info.key.version.endswith(f" alone in {name}"):
        return name, False
    return info.name, True
