"""Trials without training: scores come from a table, and a given order says whose result is heard next.

It keeps the contract of `Trials` and insists that tuners keep theirs: nobody is asked while open, after
failing, after being withdrawn, or for no more steps than it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from hippotune.sequences import Config
from hippotune.tuners import Result, Trial, TrialGroup, Tuner
from hippotune.tuners.base import Child, Timing

Score = Callable[[Config, int], float | None]
Pick = Callable[[int], int]


@dataclass
class Scripted:
    """Scripted trials.

    `score` gives a trial's metric at a step, None where it fails there. As many asks as there are `workers`
    are under way, in the order of asking; `pick` says which of them is heard next (by default the oldest).
    `clock` is asked for the time; by default there is no deadline.
    """

    score: Score
    workers: int = 1
    pick: Pick = lambda running: 0
    foreseen: list[tuple[list[Config], int]] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    log: list[tuple[str, int, int]] = field(default_factory=list)
    groups: list[TrialGroup] = field(default_factory=list)
    worths: dict[Trial, float] = field(default_factory=dict)
    deferred: list[Trial] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    clock: Callable[[], Timing] = lambda: Timing(now=0.0)

    def __post_init__(self) -> None:
        self._under_way: dict[int, list[int]] = {}
        self._reached: dict[int, int] = {}
        self._over: set[int] = set()
        self._kept: list[Result] = []

    def foresee(self, configs: Iterable[Config], step: int) -> None:
        self.foreseen.append((list(configs), step))

    def submit(self, group: TrialGroup) -> list[Trial]:
        assert group.asks, "an empty group was submitted"
        self.groups.append(group)
        asked = []
        for what, step in group.asks:
            if isinstance(what, Trial):
                trial = what
            else:
                config = what.config if isinstance(what, Child) else Config.of(what)
                trial = Trial(len(self.trials), config)
                self.trials.append(trial)
            assert trial.number not in self._under_way, f"{trial} was asked while it is open"
            assert trial.number not in self._over, f"{trial} was asked after it failed or was withdrawn"
            reached = self._reached.get(trial.number, 0)
            assert step > reached, f"{trial} was asked for {step} steps and has {reached}"
            stops = [] if group.every is None else range(group.every, step, group.every)
            self._under_way[trial.number] = [*(stop for stop in stops if stop > reached), step]
            self.log.append(("ask", trial.number, step))
            asked.append(trial)
        return asked

    async def next(self) -> Result:
        if self._kept:
            return self._kept.pop(0)
        return self._hear()

    async def all(self, trials: Iterable[Trial]) -> list[Result]:
        wanted = [trial.number for trial in trials]
        finals: dict[int, Result] = {}
        while len(finals) < len(wanted):
            result = self._hear()
            if result.final and result.trial.number in wanted:
                finals[result.trial.number] = result
            else:
                self._kept.append(result)
        return [finals[number] for number in wanted]

    def withdraw(self, trial: Trial) -> None:
        self._under_way.pop(trial.number, None)
        self._over.add(trial.number)
        self.log.append(("withdraw", trial.number, self._reached.get(trial.number, 0)))

    def timing(self) -> Timing:
        return self.clock()

    def unshared(self, config: Config, step: int) -> int:
        return step  # nothing is shared here

    def is_under_way(self, who: Config | Trial, step: int) -> bool:
        return False

    def state(self, trial: Trial, step: int) -> Hashable:
        return trial.number, step

    def defer(self, trials: Iterable[Trial]) -> None:
        self.deferred += trials

    def tell(self, text: str) -> None:
        self.told.append(text)

    def rate(self, worths: Mapping[Trial, float]) -> None:
        assert all(trial.number in self._under_way for trial in worths), "a trial that is not open was rated"
        self.worths.update(worths)

    @property
    def open(self) -> int:
        return len(self._under_way) + sum(result.final for result in self._kept)

    @property
    def under_way(self) -> int:
        return self.open  # nothing is shared here

    def _hear(self) -> Result:
        if not self._under_way:
            raise LookupError("nothing is open")
        running = list(self._under_way)[: self.workers]
        number = running[self.pick(len(running))]
        trial, stops = self.trials[number], self._under_way[number]
        step = stops.pop(0)
        value = self.score(trial.config, step)
        final = not stops or value is None
        if final:
            del self._under_way[number]
        if value is None:
            self._over.add(number)
            self.log.append(("fail", number, step))
            return Result(trial, step, None, error="it was scripted to fail")
        self._reached[number] = step
        self.log.append(("hear", number, step))
        return Result(trial, step, {"score": value, "other": 0.0}, final=final)

    def asked(self) -> dict[int, list[int]]:
        """Return for every trial the steps that it was asked for, in order."""
        steps: dict[int, list[int]] = {trial.number: [] for trial in self.trials}
        for kind, number, step in self.log:
            if kind == "ask":
                steps[number].append(step)
        return steps

    def reached(self) -> dict[int, int]:
        """Return for every trial that has a result how far it was trained."""
        return dict(self._reached)


class Sharing(Scripted):
    """Scripted trials of a study that shares: those that agree so far are heard one right after the other."""

    @property
    def under_way(self) -> int:
        return len(self._states())

    def is_under_way(self, who: Config | Trial, step: int) -> bool:
        config = who if isinstance(who, Config) else who.config
        return any(
            stops[-1] == step and self.trials[number].config.first_difference(config, step) is None
            for number, stops in self._under_way.items()
        )

    def state(self, trial: Trial, step: int) -> Hashable:
        return next(
            (each.number, step)
            for each in self.trials
            if each.config.first_difference(trial.config, step) is None
        )

    def _states(self) -> list[list[int]]:
        """Return the open trials, together where they wait for the same state."""
        states: list[list[int]] = []
        for number, stops in self._under_way.items():
            config, step = self.trials[number].config, stops[-1]
            for state in states:
                same_step = self._under_way[state[0]][-1] == step
                if same_step and self.trials[state[0]].config.first_difference(config, step) is None:
                    state.append(number)
                    break
            else:
                states.append([number])
        return states

    def _hear(self) -> Result:
        assert self.under_way <= self.workers, "more is under way than there are workers"
        return super()._hear()


def tune(tuner: Tuner, score: Score, workers: int = 1, pick: Pick = lambda running: 0) -> Scripted:
    """Run a tuner to its end; return what it did."""
    scripted = Scripted(score, workers, pick)
    asyncio.run(tuner.run(scripted))
    assert scripted.open == 0, "the tuner ended with open trials"
    return scripted


def numbered(count: int) -> dict[str, list[int]]:
    """Return a space of so many configs, told apart by the hyper-parameter ``n``."""
    return {"n": list(range(count))}


def by_number(table: Callable[[int, int], float | None]) -> Score:
    """Return the scores of a table by ``n`` and step."""
    return lambda config, step: table(int(config["n"].value(0)), step)
