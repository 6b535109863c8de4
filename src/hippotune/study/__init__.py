"""What the user holds: studies, their tuning and their reports."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hippotune.study.best import Best as Best
    from hippotune.study.estimates import Cost as Cost
    from hippotune.study.estimates import Estimate as Estimate
    from hippotune.study.estimates import estimate as estimate
    from hippotune.study.estimates import format_estimates as format_estimates
    from hippotune.study.report import Report as Report
    from hippotune.study.report import TrialReport as TrialReport
    from hippotune.study.study import Study as Study
    from hippotune.study.work import Work as Work

_MODULES = {
    **dict.fromkeys(("Cost", "Estimate", "estimate", "format_estimates"), "estimates"),
    **dict.fromkeys(("Report", "TrialReport"), "report"),
    "Best": "best",
    "Study": "study",
    "Work": "work",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
