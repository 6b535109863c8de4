"""What a user's own code is told while a study is tuned."""

from __future__ import annotations

from collections.abc import Sequence

from hippotune.tuners.base import Mode, Result


class Callback:
    """Base of callbacks: override what you want to hear of.

    They are called in the process that tunes, in the order in which the tuner hears results, and each is
    durable by then. So a study that is run again after an interruption tells the very same again, from the
    first result on, before it goes on: write down what you have acted upon. Be quick: the same thread steers
    training. An exception ends the tuning, and nothing that was trained is lost.
    """

    def on_result(self, result: Result) -> None:
        """A result is there: a report on the way, a trial's last one, or a failure."""

    def on_trial_end(self, result: Result) -> None:
        """A trial has reached its requested step, or has failed. If it goes further, it ends again."""

    def on_best(self, result: Result) -> None:
        """A result is better than all before it, by the metric that is tuned for."""


class Callbacks:
    """Tells all callbacks of a tuning."""

    def __init__(self, callbacks: Sequence[Callback], metric: str, mode: Mode) -> None:
        self._callbacks = tuple(callbacks)
        self._metric = metric
        self._mode = mode
        self._best: float | None = None

    def heard(self, result: Result) -> None:
        """The tuner has taken a result."""
        if not self._callbacks:
            return
        is_best = False
        if not result.failed:
            score = result.score(self._metric, self._mode)
            is_best = self._best is None or score > self._best
            self._best = score if is_best else self._best
        for callback in self._callbacks:
            callback.on_result(result)
            if result.final:
                callback.on_trial_end(result)
            if is_best:
                callback.on_best(result)
