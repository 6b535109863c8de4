"""Asynchronous halving (Li et al., 2020): the promotion rule of ASHA, as published.

Asked for something to do, look at the rungs from the highest down: of the k trials that have a result at a
rung, one among the best floor(k / reduction) that has not gone on yet goes on. If there is none, a new
trial is due.

The published rule never ends. Here the number of trials is limited, so one thing is added: when nothing is
under way and nothing more can be started or promoted, the best trial of a rung goes on if none of that rung
has, as in successive halving. So a small study, too, trains a trial to the top.
"""

from __future__ import annotations

from collections.abc import Sequence

from hippotune.tuners.base import Trial
from hippotune.tuners.rungs import Rung


class Ladder:
    """Rungs that trials climb whenever they are among the best so far.

    Attributes
    ----------
    top : int
        The highest rung that may be climbed to.
    """

    def __init__(self, steps: Sequence[int], reduction: int) -> None:
        self.steps = list(steps)
        self.rungs = [Rung() for _ in steps]
        self.top = len(self.steps) - 1
        self._reduction = reduction
        self._at: dict[int, int] = {}

    def passing(self, trial: Trial, step: int, score: float) -> None:
        """Note a trial's score on its way to a rung; the published rule takes no account of it."""

    def report(self, trial: Trial, score: float) -> None:
        """Note a trial's score at the rung that it was on its way to."""
        self.rungs[self._at.get(trial.number, 0)].add(trial, score)

    def promote(self) -> tuple[Trial, int] | None:
        """Return a trial that goes on by the published rule, and how far."""
        for place in range(self.top - 1, -1, -1):
            rung = self.rungs[place]
            best = rung.best_waiting()
            if best is not None and best[1] < len(rung) // self._reduction:
                return self._send_on(place)
        return None

    def promote_last(self) -> tuple[Trial, int] | None:
        """Return the best trial of a rung that none has left upwards, where nothing else is left to do."""
        for place in range(self.top):
            if self.rungs[place].scored and not self.rungs[place].gone_on:
                return self._send_on(place)
        return None

    def _send_on(self, place: int) -> tuple[Trial, int]:
        trial = self.rungs[place].take_best()
        self._at[trial.number] = place + 1
        return trial, self.steps[place + 1]
