"""Who gets the free workers when the best are to win: by what trials are worth, not by how long they are.

Every piece of work gets one slot, the best first. What is left over goes round the best first (uniform), all
to the best (top), or mostly to the best (softmax).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, get_args

from hippo.errors import InvalidInput
from hippo.scheduling.policy import Contender, WidthPolicy
from hippo.scheduling.width import WAITS, Room, Speed

Kind = Literal["uniform", "top", "softmax"]

# How many times the range of all scores is wider than a difference that makes one e times as likely.
_SHARPNESS = 8.0


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
            extra = _by_softmax(scores, left, best_first)
    return [one + more for one, more in zip(given, extra, strict=True)]


def _by_softmax(scores: Sequence[float], count: int, best_first: Sequence[int]) -> list[int]:
    """Share out by softmax, in whole numbers: what is lost by rounding goes to the largest remainders.

    Differences count relative to the range of all scores, so that it does not matter what a metric is in.
    """
    finite = [score for score in scores if math.isfinite(score)]
    spread = (max(finite) - min(finite)) if finite else 0.0
    top = max(finite, default=0.0)
    weights = [
        (math.exp((score - top) / spread * _SHARPNESS) if spread else 1.0) if math.isfinite(score) else 0.0
        for score in scores
    ]
    total = sum(weights) or 1.0
    portions = [count * weight / total for weight in weights]
    extra = [math.floor(portion) for portion in portions]
    by_remainder = sorted(best_first, key=lambda each: extra[each] - portions[each])
    for index in by_remainder[: count - sum(extra)]:
        extra[index] += 1
    return extra


class Allocation(WidthPolicy):
    """Gives slots to the work that is worth most.

    Parameters
    ----------
    kind : "uniform", "top" or "softmax"
        How what is left over is shared out, after one slot for each.
    max_width, scaling
        As for all policies.
    """

    def __init__(
        self, kind: Kind = "top", max_width: int | None = None, scaling: Mapping[float, float] | None = None
    ) -> None:
        if kind not in get_args(Kind):
            raise InvalidInput(f"kind is {kind!r}; expected one of {', '.join(map(repr, get_args(Kind)))}")
        super().__init__(1, max_width, scaling)
        self.kind = kind

    def widths(
        self, work: Sequence[Contender], slots: int, speed: Speed, beyond: float = 0.0
    ) -> list[Fraction]:
        """Return widths by worth; what a piece of work cannot use goes to the next best."""
        counts = allocate(self.kind, [each.worth for each in work], slots)
        room = Room(slots)
        given = [WAITS] * len(work)
        best_first = sorted(range(len(work)), key=lambda each: (-work[each].worth, each))
        for limits in (counts, [slots] * len(work)):
            for index in best_first:
                for step in work[index].ladder:
                    fits = given[index] < step <= limits[index]
                    if fits and speed(step) > speed(given[index]) and room.take(given[index], step):
                        given[index] = step
        return given
