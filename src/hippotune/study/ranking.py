"""The best results of a tuning so far: their checkpoints stay, even above the budget."""

from __future__ import annotations

from hippotune.tuners.base import Mode, Result


class Ranking:
    """The `keep_best` best final results by a metric, the best first, and the best of all results.

    What is measured on the way to a step has a checkpoint only where something else begins there. So it is
    kept where it is the very best, and takes no place from what is sure to have one.
    """

    def __init__(self, metric: str, mode: Mode, keep_best: int) -> None:
        self._finals: list[Result] = []
        self._first: Result | None = None
        self._metric = metric
        self._mode: Mode = mode
        self._keep_best = keep_best

    @property
    def best(self) -> list[Result]:
        """What is kept."""
        on_the_way = [] if self._first is None or self._first in self._finals else [self._first]
        return [*on_the_way, *self._finals]

    def add(self, result: Result) -> bool:
        """Rank a result; return whether it is one of the best."""
        if result.failed:
            return False
        is_first = self._first is None or self._score(result) > self._score(self._first)
        if is_first:
            self._first = result
        if not result.final:
            return is_first
        ranked = sorted([*self._finals, result], key=self._score, reverse=True)[: self._keep_best]
        if result not in ranked:
            return is_first
        self._finals = ranked
        return True

    def _score(self, result: Result) -> float:
        return result.score(self._metric, self._mode)
