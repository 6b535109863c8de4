"""Widths by the worth of trials, not by their length.

Every piece of work gets one slot, the best first. The slots that are left go to all in turn, the best first
(uniform), all to the best (top), or in proportion to the softmax of the scores, rounded down, with the rest
to the best (softmax), as in HyperSched (Liaw et al., 2019).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, get_args

from hippotune import checks
from hippotune.scheduling.policy import Contender, WidthPolicy
from hippotune.scheduling.width import WAITS, Speed

Kind = Literal["uniform", "top", "softmax"]


def allocate(kind: Kind, scores: Sequence[float], workers: int) -> list[int]:
    """Return how many workers each gets; where there are fewer workers than scores, the worst get none."""
    best_first = sorted(range(len(scores)), key=lambda each: (-scores[each], each))
    given = [0] * len(scores)
    for index in best_first[:workers]:
        given[index] = 1
    left = workers - len(scores)
    if left <= 0 or not scores:
        return given
    match kind:
        case "uniform":
            extra = [left // len(scores)] * len(scores)
            for index in best_first[: left % len(scores)]:
                extra[index] += 1
        case "top":
            extra = [0] * len(scores)
            extra[best_first[0]] = left
        case "softmax":
            extra = [math.floor(left * share) for share in _softmax(scores)]
            extra[best_first[0]] += left - sum(extra)
    return [one + more for one, more in zip(given, extra, strict=True)]


def _softmax(scores: Sequence[float]) -> list[float]:
    """Return the share of each by softmax of the scores themselves, as published."""
    top = max(scores)
    weights = [1.0 if score == top else math.exp(score - top) for score in scores]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


class Allocation(WidthPolicy):
    """Gives slots to the work that is worth most.

    Parameters
    ----------
    kind : "uniform", "top" or "softmax"
        How the slots that are left after one for each are shared out. Softmax uses the scores themselves, so
        its result depends on the unit of the metric.
    max_width, scaling
        As for all policies.
    """

    def __init__(
        self, kind: Kind = "top", max_width: int | None = None, scaling: Mapping[float, float] | None = None
    ) -> None:
        super().__init__(1, max_width, scaling)
        self.kind: Kind = checks.one_of("kind", kind, get_args(Kind))

    def widths(
        self, work: Sequence[Contender], slots: int, speed: Speed, beyond: float = 0.0
    ) -> list[Fraction]:
        """Return widths by worth; slots that a piece of work cannot use go to the next best."""
        counts = allocate(self.kind, [each.worth for each in work], slots)
        given = [WAITS] * len(work)
        left = slots
        best_first = sorted(range(len(work)), key=lambda each: (-work[each].worth, each))
        for limits in (counts, [slots] * len(work)):
            for index in best_first:
                before = given[index]
                most = min(Fraction(limits[index]), before + left)
                wider = [step for step in work[index].ladder if before < step <= most]
                fastest = max(wider, key=speed, default=WAITS)
                if fastest and (not before or speed(fastest) > speed(before)):
                    given[index] = fastest
                    left -= int(fastest - before)
                if not left:
                    return given
        return given
