"""Asynchronous halving (Li et al., 2020): the promotion rule of ASHA, over states.

Asked for something to do, look at the rungs from the highest down: of the k states that have a result at a
rung, one among the best floor(k / reduction) that has not gone on yet goes on. If there is none, a new
trial is due. Where every trial has a state of its own, that is the published rule.

A state goes on with as many of its trials as cost no more unique steps than the published rule, which counts
trials, would spend on them at the time; the others are deferred. A trial that comes to a state of which all
have gone on goes on too.

The published rule never ends. Here the number of trials is limited, so one thing is added: when nothing is
under way and nothing more can be started or promoted, the best state of a rung goes on if none of that rung
has, as in successive halving. So a small study, too, trains a trial to the top.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence

from hippotune.sequences.config import Config
from hippotune.tuners.base import Trial
from hippotune.tuners.partings import Partings
from hippotune.tuners.rungs import Rung, Standing

Asks = tuple[tuple[Config | Trial, int], ...]


class Ladder:
    """Rungs that trials climb whenever their states are among the best so far.

    Attributes
    ----------
    top : int
        The highest rung that may be climbed to.
    """

    def __init__(self, steps: Sequence[int], reduction: int, seed: int = 0) -> None:
        self.steps = list(steps)
        self.rungs = [Rung() for _ in steps]
        self.top = len(self.steps) - 1
        self._reduction = reduction
        self._seed = seed
        self._at: dict[int, int] = {}
        self._cut: dict[Standing, None] = {}
        self._going_on: deque[Asks] = deque()

    @property
    def deferred(self) -> list[Trial]:
        """The trials that were in one state with others that went on."""
        return [trial for place in self._cut for trial in place.left]

    def rung_of(self, trial: Trial) -> int:
        """Return the step at which a trial is compared next."""
        return self.steps[self._at.get(trial.number, 0)]

    def passing(self, trial: Trial, step: int, score: float) -> None:
        """Note a trial's score on its way to a rung; the published rule takes no account of it."""

    def report(self, trial: Trial, score: float, state: Hashable) -> Standing:
        """Note a trial's score at the rung that it was on its way to; return the place of its state."""
        at = self._at.get(trial.number, 0)
        place = self.rungs[at].add(trial, score, state)
        if place.sent and place not in self._cut:
            self._going_on.append(self._send(at, place, [trial]))
        return place

    def promote(self) -> Asks:
        """Return trials that go on together by the rule, and how far."""
        if self._going_on:
            return self._going_on.popleft()
        for at in range(self.top - 1, -1, -1):
            rung = self.rungs[at]
            best = rung.best_waiting()
            if best is not None and rung.rank_of(best) < len(rung) // self._reduction:
                return self._send_on(at, best)
        return ()

    def promote_last(self) -> Asks:
        """Return the best trials of a rung that none has left upwards, where nothing else is left to do."""
        for at in range(self.top):
            best = self.rungs[at].best_waiting()
            if best is not None and not self.rungs[at].gone_on:
                return self._send_on(at, best)
        return ()

    def _send_on(self, at: int, place: Standing) -> Asks:
        """Send a state on: as many of its trials as the published rule would have room for.

        Those that part before the next rung follow one after the other, as workers become free.
        """
        rung = self.rungs[at]
        places = max(rung.reported // self._reduction - rung.gone_on, 1)
        partings = Partings(place.trials, self.steps[at], self.steps[at + 1])
        sent = partings.within(places, (self._seed, at))
        if len(sent) < len(place.trials):
            self._cut[place] = None
        self._going_on += [self._send(at, place, group) for group in partings.together(sent)]
        return self._going_on.popleft()

    def _send(self, at: int, place: Standing, trials: list[Trial]) -> Asks:
        self.rungs[at].send(place, trials)
        self._at |= {trial.number: at + 1 for trial in trials}
        return tuple((trial, self.steps[at + 1]) for trial in trials)
