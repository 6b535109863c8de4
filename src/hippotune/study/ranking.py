"""The best results of a tuning so far: their checkpoints stay, whatever the budget."""

from __future__ import annotations

from hippotune.tuners.base import Mode, Result


class Ranking:
    """The `keep_best` best final results by a metric, the best first."""

    def __init__(self, metric: str, mode: Mode, keep_best: int) -> None:
        self.best: list[Result] = []
        self._metric = metric
        self._mode: Mode = mode
        self._keep_best = keep_best

    def add(self, result: Result) -> bool:
        """Rank a result; return whether it is one of the best."""
        if not result.final or result.failed:
            return False
        ranked = sorted(
            [*self.best, result], key=lambda each: each.score(self._metric, self._mode), reverse=True
        )[: self._keep_best]
        if result not in ranked:
            return False
        self.best = ranked
        return True
