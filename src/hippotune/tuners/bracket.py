"""Synchronous halving: of the trials that reach a rung, a fixed number goes on to the next.

Which trials go on depends on the scores alone, never on the order of finish. No trial waits without need:
in a rung of n of which m go on, the best j are certain once n − m + j have finished, and they go on at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from hippotune.sequences.config import Config
from hippotune.tuners.base import Result, Trial, TrialGroup, Trials
from hippotune.tuners.proposer import Proposer
from hippotune.tuners.rungs import Rung
from hippotune.tuners.space_tuner import free_workers

Ask = tuple[Config | Trial, int]


class Bracket:
    """Rungs of falling size: `sizes[i]` trials are trained for `steps[i]` steps."""

    def __init__(self, steps: Sequence[int], sizes: Sequence[int]) -> None:
        self._steps = list(steps)
        self._sizes = list(sizes)
        self._rungs = [Rung() for _ in steps]
        self._at: dict[int, int] = {}

    @property
    def first_step(self) -> int:
        """What every trial of the bracket is trained for at least."""
        return self._steps[0]

    @property
    def size(self) -> int:
        """How many trials the bracket starts with."""
        return self._sizes[0]

    def report(self, trial: Trial, score: float) -> list[Ask]:
        """Note a trial's score at its rung; return the trials that now go on whatever comes, and how far."""
        self._rungs[self._at.get(trial.number, 0)].add(trial, score)
        asks: list[Ask] = []
        most = self._sizes[0]  # how many can still have a result at the rung
        for index, rung in enumerate(self._rungs[:-1]):
            to_come = most - len(rung)
            quota = self._sizes[index + 1]
            while rung.gone_on < min(quota - to_come, rung.scored):
                best = rung.take_best()
                self._at[best.number] = index + 1
                asks.append((best, self._steps[index + 1]))
            most = min(quota, rung.scored + to_come)
        return asks


async def run_brackets(
    trials: Trials,
    brackets: Sequence[Bracket],
    proposer: Proposer,
    score: Callable[[Result], float],
    at_once: bool,
) -> None:
    """Fill the brackets with what the proposer proposes and run them to their end.

    With `at_once` all trials are submitted together. Otherwise, for proposers that learn, a new trial
    starts when a worker has nothing to do; brackets are filled in their order, and going on comes before
    starting anew.
    """
    home: dict[int, Bracket] = {}
    places = deque(bracket for bracket in brackets for _ in range(bracket.size))
    going_on: list[Ask] = []
    while True:
        free = len(places) if at_once else free_workers(trials) - len(going_on)
        starting = [places.popleft() for _ in range(min(free, len(places)))]
        asks = going_on + [(proposer.propose(), bracket.first_step) for bracket in starting]
        if asks:
            begun = trials.submit(TrialGroup(tuple(asks)))[len(going_on) :]
            for trial, bracket in zip(begun, starting, strict=True):
                home[trial.number] = bracket
        if trials.open == 0:
            return
        result = await trials.next()
        going_on = []
        if result.final:
            proposer.observe(result.trial, result.step, score(result))
            going_on = home[result.trial.number].report(result.trial, score(result))
