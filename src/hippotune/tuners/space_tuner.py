"""What the tuners here have in common: a space, a metric with its mode, and the most steps of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.config import Config
from hippotune.spaces.sharing import together
from hippotune.spaces.space import Space, as_space
from hippotune.tuners.base import Result, Trials, Tuner, check_mode
from hippotune.tuners.rungs import RungKind


class SpaceTuner(Tuner):
    """A tuner over the configs of a space.

    Attributes
    ----------
    space : Space
        A plain dict is taken as a `Grid`, or as a `Space` where it has distributions of numbers.
    trials : int or None
        How many configs are drawn from the space, by `seed`; None takes all, which only a finite space has.
    max_steps : int
        No trial is trained further than this.
    """

    rungs: RungKind = "states"

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        max_steps: int,
        trials: int | None = None,
        seed: int = 0,
    ) -> None:
        self.space = as_space(space)
        self.metric = checks.text("metric", metric, "accuracy")
        self.mode = check_mode(mode)
        self.max_steps = checks.whole("max_steps", max_steps)
        branches = self.space.branches
        if branches is not None and branches.at[-1] >= self.max_steps:
            raise InvalidInput(
                f"at has the step {branches.at[-1]}, and max_steps is {self.max_steps}: branches from there "
                "would never leave the trunk. Take it out, or make max_steps larger"
            )
        self.trials = None if trials is None else checks.whole("trials", trials)
        self.seed = checks.whole("seed", seed, least=0)
        self._check_trials()

    def configs(self) -> list[Config]:
        """Return the configs that the tuner starts from, in order: the same ones whenever it is asked."""
        if self.trials is None:
            return list(self.space.configs())
        return self.space.draw(self.trials, self.seed)

    def asks(self) -> list[tuple[Config, int]]:
        """Return these configs, with how far each may be trained."""
        return [(config, self.max_steps) for config in self.configs()]

    @property
    def number(self) -> int:
        """How many trials the tuner starts."""
        return len(self.space) if self.trials is None else self.trials

    def score(self, result: Result) -> float:
        """Return the result's score, of which more is better."""
        return result.score(self.metric, self.mode)

    def foreseen(self, trials: Trials, rungs: Sequence[int]) -> list[Config]:
        """Return the configs, after telling that they will come, and which of them are compared as one."""
        configs = self.configs()
        trials.foresee(configs, self.max_steps)
        found = None if self.rungs == "trials" else together(configs, rungs[:-1], self.max_steps)
        if found is not None:
            until = "to the end" if found.until is None else f"until step {found.until}"
            trials.tell(
                f"{found.trials} trials are equal {until}: at the rungs before that they count as one, and "
                "go on together"
            )
        return configs

    def _check_trials(self) -> None:
        if self.trials is None and not self.space.finite:
            raise InvalidInput(
                "trials is missing; the space has no end, so say how many trials to draw from it"
            )
        if self.trials is not None and self.space.finite:
            found = self.space.up_to(self.trials)
            if found < self.trials:
                raise InvalidInput(f"trials is {self.trials}; the space has only {found} configs")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.metric!r}, {self.mode!r}, max_steps={self.max_steps})"


def free_workers(trials: Trials) -> int:
    """Return how many workers have nothing to do, by what was heard; at least one is always counted on.

    Trials that share all that they were asked for take one worker, so there may be more trials than workers.
    """
    return max(trials.workers, 1) - trials.under_way
