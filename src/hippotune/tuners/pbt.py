"""Population based training (Jaderberg et al., 2017), on a tree of stages.

A member of the population is a config. To exploit is to take over the winner's config up to this step, so
the new member branches off the winner's checkpoint; to explore is to go on with other sequences from this
step. So every schedule that comes of it is a config like any other, and training that config gives the same
result again. Where a study shares nothing, a new member still goes on from the winner's weights.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.config import Config
from hippotune.spaces.members import Member
from hippotune.spaces.space import Space
from hippotune.tuners.base import Child, Trial, TrialGroup, Trials
from hippotune.tuners.exploring import Explorer
from hippotune.tuners.rungs import Rung
from hippotune.tuners.space_tuner import SpaceTuner


class PBT(SpaceTuner):
    """Train a population; every `interval` steps the worst take over from the best and change something.

    Of the members, the worst `quantile` (and those that failed) are replaced by a copy of one of the best
    `quantile`, chosen at random. In the copy every number is multiplied by 0.8 or 1.2 and every choice
    moves to the option before or after it, or, with the probability `resample`, is drawn anew. A sequence
    that is changed begins with its step 0 there.

    `explore` names the hyper-parameters that may change in the midst of training; without it all may. A
    choice between options with hyper-parameters of their own never does. Members that are certain not to be
    replaced go on before the others have reached the end of the interval.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        interval: int,
        max_steps: int,
        population: int = 16,
        quantile: float = 0.25,
        resample: float = 0.25,
        explore: Collection[str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(space, metric, mode, max_steps, seed=seed)
        self.interval = checks.whole("interval", interval)
        if self.interval >= self.max_steps:
            raise InvalidInput(f"interval is {interval}; expected less than max_steps, which is {max_steps}")
        self.population = checks.whole("population", population, least=2)
        self.quantile = checks.number("quantile", quantile, least=0, most=0.5)
        self.resample = checks.number("resample", resample, least=0, most=1)
        names = set(self.space.owners.values())
        self.explore = frozenset(names if explore is None else checks.several("explore", explore))
        if not self.explore <= names:
            raise InvalidInput(f"explore is {explore!r}; expected names among {sorted(names)}")

    @property
    def number(self) -> int:
        """How many trials the tuner starts; more begin as it goes on."""
        return self.population

    def configs(self) -> list[Config]:
        """Return the first population."""
        explorer = self._explorer(np.random.default_rng(self.seed))
        return [explorer.draw().config for _ in range(self.population)]

    async def run(self, trials: Trials) -> None:
        """Train generation after generation, without waiting where there is nothing to wait for."""
        generator = np.random.default_rng(self.seed)
        explorer = self._explorer(generator)
        steps = [*range(self.interval, self.max_steps, self.interval), self.max_steps]
        generations = [_Generation(self.population, int(self.population * self.quantile)) for _ in steps]
        at: dict[int, int] = {}
        members: dict[int, Member] = {}
        born: list[tuple[Member, Trial | None]] = [(explorer.draw(), None) for _ in range(self.population)]
        trials.foresee([member.config for member, _ in born], self.max_steps)
        going_on: Sequence[Trial] = ()
        now = 0
        while True:
            if going_on or born:
                new = [
                    member.config if parent is None else Child(member.config, parent)
                    for member, parent in born
                ]
                asked = trials.submit(TrialGroup.of([*going_on, *new], steps[now]))
                at.update((trial.number, now) for trial in asked)
                members.update(
                    (trial.number, member)
                    for trial, (member, _) in zip(asked[len(going_on) :], born, strict=True)
                )
            if not trials.open:
                return
            result = await trials.next()
            going_on, born = (), []
            if not result.final or (now := at[result.trial.number] + 1) == len(steps):
                continue
            generation = generations[now - 1]
            going_on = generation.report(result.trial, self.score(result))
            if generation.complete:
                best = generation.best
                for _ in range(generation.to_replace):
                    winner = best[int(generator.integers(len(best)))]
                    born.append((explorer.changed(members[winner.number], steps[now - 1]), winner))

    def _explorer(self, generator: np.random.Generator) -> Explorer:
        return Explorer(self.space, self.explore, self.resample, generator)

    def _check_trials(self) -> None:
        """The population says how many trials there are."""


class _Generation:
    """The population at the end of one interval."""

    def __init__(self, size: int, replaced: int) -> None:
        self._size = size
        self._replaced = replaced
        self._rung = Rung()

    def report(self, trial: Trial, score: float) -> list[Trial]:
        """Note a member's score; return the members that are now certain not to be replaced."""
        self._rung.add(trial, score, trial.number)
        certain = min(len(self._rung) - self._replaced, self._rung.scored)
        return [best for _ in range(certain - self._rung.gone_on) for best in self._rung.take_best()]

    @property
    def complete(self) -> bool:
        """Whether all members are there, and one of them has a score."""
        return len(self._rung) == self._size and self._rung.scored > 0

    @property
    def best(self) -> list[Trial]:
        """The members that may be copied: as many as are replaced."""
        return self._rung.ranking()[: max(self._replaced, 1)]

    @property
    def to_replace(self) -> int:
        """How many members did not go on."""
        return self._size - self._rung.gone_on
