"""Synchronous halving: of the trials that reach a rung, a fixed number goes on to the next.

Which trials go on depends on the scores alone, never on the order of finish. No trial waits without need:
in a rung of n of which m go on, the best j are certain once n − m + j have finished, and they go on at once.

Trials of one state go on together. Of the last state that goes on there may be more trials than places: then
as many of them go on as cost no more unique steps than those places would, and the rest are *deferred*. They
can go on later; they were not beaten.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence

from hippotune.sequences.config import Config
from hippotune.tuners.base import Result, Trial, TrialGroup, Trials
from hippotune.tuners.partings import Partings
from hippotune.tuners.proposer import Proposer
from hippotune.tuners.rungs import Rung, RungKind, states_of
from hippotune.tuners.space_tuner import free_workers

Ask = tuple[Config | Trial, int]


class Bracket:
    """Rungs of falling size: `sizes[i]` trials are trained for `steps[i]` steps.

    `deferred` are the trials that were in one state with others that went on.
    """

    def __init__(
        self, steps: Sequence[int], sizes: Sequence[int], rungs: RungKind = "states", seed: int = 0
    ) -> None:
        self.deferred: list[Trial] = []
        self._steps = list(steps)
        self._sizes = list(sizes)
        self._kind = rungs
        self._seed = seed
        self._rungs = [Rung() for _ in steps]
        self._expected: list[Counter[Hashable]] = [Counter() for _ in steps]
        self._at: dict[int, int] = {}
        self._closed = 0  # how many rungs all trials have come to

    @property
    def first_step(self) -> int:
        """What every trial of the bracket is trained for at least."""
        return self._steps[0]

    @property
    def size(self) -> int:
        """How many trials the bracket starts with."""
        return self._sizes[0]

    def expect(self, trial: Trial, state: Hashable) -> None:
        """A trial is on its way to its next rung, where it will be in a state."""
        self._expected[self._at.get(trial.number, 0)][state] += 1

    def rung_of(self, trial: Trial) -> int:
        """Return the step at which a trial is compared next."""
        return self._steps[self._at.get(trial.number, 0)]

    def report(self, trial: Trial, score: float, state: Hashable) -> list[Ask]:
        """Note a trial's score at its rung; return the trials that now go on whatever comes, and how far."""
        at = self._at.get(trial.number, 0)
        place = self._rungs[at].add(trial, score, state)
        asks: list[Ask] = []
        most = self._sizes[0]  # how many trials can have a result at the rung
        for index, rung in enumerate(self._rungs[:-1]):
            to_come = most - rung.reported
            going_on: list[Trial] = []
            if index == at and place.sent:  # the others of its state have gone on before
                rung.send(place, [trial])
                going_on = [trial]
            if index >= self._closed:
                certain = self._sizes[index + 1] - to_come
                going_on += self._certain(rung, certain)
                if not to_come:
                    going_on += self._close(index, certain - rung.gone_on)
            for each in going_on:
                self._at[each.number] = index + 1
                asks.append((each, self._steps[index + 1]))
            most = rung.gone_on if not to_come else self._most_after(index, most, to_come)
        return asks

    def _certain(self, rung: Rung, certain: int) -> list[Trial]:
        """Send on the states all of whose trials are among the `certain` best ones."""
        sent: list[Trial] = []
        while (best := rung.best_waiting()) is not None and rung.gone_on + len(best.trials) <= certain:
            sent += rung.take_best()
        return sent

    def _close(self, index: int, places: int) -> list[Trial]:
        """All have come to a rung: send on what costs no more than the places that are left, of one state."""
        self._closed += 1
        last = self._rungs[index].best_waiting()
        if last is None or places < 1:
            return []
        partings = Partings(last.trials, self._steps[index], self._steps[index + 1])
        sent = partings.within(places, (self._seed, index))
        self._rungs[index].send(last, sent)
        self.deferred += last.left
        return sent

    def _most_after(self, index: int, most: int, to_come: int) -> int:
        """Return how many trials can reach the next rung: those of one state may take one another along."""
        if self._kind == "trials":
            return min(self._sizes[index + 1], self._rungs[index].scored + to_come)
        expected = self._expected[index]
        unknown = most - expected.total()
        along = max(expected.values(), default=0) + unknown - 1
        return min(self._sizes[index + 1] + max(along, 0), self._rungs[index].scored + to_come)


async def run_brackets(
    trials: Trials,
    brackets: Sequence[Bracket],
    proposer: Proposer,
    score: Callable[[Result], float],
    at_once: bool,
    rungs: RungKind = "states",
) -> None:
    """Fill the brackets with what the proposer proposes and run them to their end.

    With `at_once` all trials are submitted together. Otherwise, for proposers that learn, a new trial
    starts when a worker has nothing to do; brackets are filled in their order, and going on comes before
    starting anew.
    """
    home: dict[int, Bracket] = {}
    places = deque(bracket for bracket in brackets for _ in range(bracket.size))
    going_on: list[Ask] = []
    state_of = states_of(trials, rungs)
    while True:
        free = len(places) if at_once else free_workers(trials) - len(going_on)
        starting = [places.popleft() for _ in range(min(free, len(places)))]
        asks = going_on + [(proposer.propose(), bracket.first_step) for bracket in starting]
        if asks:
            asked = trials.submit(TrialGroup(tuple(asks)))
            for trial, bracket in zip(asked[len(going_on) :], starting, strict=True):
                home[trial.number] = bracket
            for trial, (_, step) in zip(asked, asks, strict=True):
                home[trial.number].expect(trial, state_of(trial, step))
        if trials.open == 0:
            break
        result = await trials.next()
        going_on = []
        if result.final:
            trial, bracket = result.trial, home[result.trial.number]
            state = state_of(trial, bracket.rung_of(trial))
            proposer.observe(trial, result.step, score(result), state)
            going_on = bracket.report(trial, score(result), state)
    trials.defer(trial for bracket in brackets for trial in bracket.deferred)
