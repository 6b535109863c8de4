"""What a plan is, in the words that the page needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hippotune.history.studies import asked_as

if TYPE_CHECKING:
    from hippotune.store.catalog import StudyInfo


def about_plan(info: StudyInfo, studies: Iterable[StudyInfo]) -> dict[str, Any]:
    """Say what the plan of a study is, and what its studies are after; `info` is the one to show first."""
    return {
        "plan": info.key.digest,
        "trainer": info.key.trainer,
        "study": asked_as(info)[0],
        "studies": [
            {"name": asked_as(each)[0], "metric": each.metric, "mode": each.mode}
            for each in studies
            if each.key == info.key
        ],
    }
