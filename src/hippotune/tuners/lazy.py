"""Lazy search: the next config is the one that promises most for the steps that it does not share.

A config that leaves what is trained late costs its last steps alone. So a candidate is rated by its expected
improvement over its price, to a power that falls from 1 to 0 while the budget is spent: cheap questions
first, and at last whatever is best. A fixed share of proposals ignores prices, so that the search cannot stay
in one subtree. docs/searching.md cites what it is related to.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.config import Config
from hippotune.spaces.space import Space
from hippotune.tuners.base import Result, TrialGroup, Trials, as_score
from hippotune.tuners.candidates import Candidates
from hippotune.tuners.features import Features, Numbers
from hippotune.tuners.prices import Prices
from hippotune.tuners.space_tuner import SpaceTuner, free_workers
from hippotune.tuners.surrogate import Surrogate

if TYPE_CHECKING:
    from hippotune.study.report import Report, TrialReport

NEAR = 24
"""How many configs near a proposal are looked at, to see where branches may leave it."""

KEPT = 8
"""How many checkpoints are kept along a proposal, where branches are most likely to leave it."""


class Lazy(SpaceTuner):
    """Spend `steps` steps, all that are not shared, on what promises most for its price.

    ``Lazy(space, "val_loss", "min", max_steps=120, steps=3_000)``

    Every proposal is trained for `max_steps` steps. It costs the steps that it shares with no earlier one.
    Candidates are configs of the space: fresh draws, and those that share much with the best. A Gaussian
    process over features of their schedules says what each promises. Checkpoints are kept where the most
    promising branches of a proposal would leave it. Needs the extra ``sklearn``.

    Parameters
    ----------
    steps : int
        How many steps are trained in all, at most.
    startup : int, optional
        How many configs are drawn by chance before the model is asked; by default eight, or as many as a
        third of the steps pays for.
    alpha : float
        The power of the price at the start; it falls to 0 while the budget is spent.
    blind : float
        The share of proposals that ignore prices.
    branches : bool
        Whether candidates that share much with what is trained are looked for.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        max_steps: int,
        steps: int,
        *,
        startup: int | None = None,
        alpha: float = 1.0,
        blind: float = 0.2,
        branches: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(space, metric, mode, max_steps, trials=1, seed=seed)
        self.steps = checks.whole("steps", steps)
        if steps < max_steps:
            raise InvalidInput(
                f"steps is {steps}, and max_steps is {max_steps}: expected enough for one trial at least"
            )
        self.alpha = checks.number("alpha", alpha, least=0)
        self.blind = checks.number("blind", blind, least=0, most=1)
        self.branches = checks.yes_or_no("branches", branches)
        whole = steps // max_steps
        self.startup = max(min(8, whole // 3), 2) if startup is None else checks.whole("startup", startup)
        self.trials = self.space.up_to(whole) if self.space.finite else whole

    async def run(self, trials: Trials) -> None:
        """Keep every worker busy with a proposal until the steps are spent."""
        search = _Search(self)
        while True:
            while free_workers(trials) > 0 and (config := search.choose()) is not None:
                trials.foresee(search.foresee(config), self.max_steps)
                (trial,) = trials.submit(TrialGroup.of([config], self.max_steps))
                search.ask(trial.number, config)
            if not trials.open:
                return
            search.observe(await trials.next())

    def recommend(self, report: Report) -> TrialReport:
        """Return the trial of a report that is expected to be best where it is trained with another seed.

        The best score of many owes something to luck. The model takes that away: what is alike does alike.
        """
        done = [trial for trial in report.trials if self.max_steps in trial.metrics]
        scores = [as_score(trial.metrics[self.max_steps][self.metric], self.mode) for trial in done]
        if len(done) < 2:
            raise InvalidInput(
                f"{len(done)} trials have come to step {self.max_steps}: expected two at least"
            )
        configs = Candidates(self.space, np.random.default_rng(self.seed), self.branches).reference()
        known = Features(configs, self.max_steps).of(trial.config for trial in done)
        return done[int(np.argmax(Surrogate().expected(known, scores)))]


class _Search:
    """One run."""

    def __init__(self, tuner: Lazy) -> None:
        self._tuner = tuner
        self._generator = np.random.default_rng(tuner.seed)
        self._prices = Prices(tuner.max_steps)
        self._candidates = Candidates(tuner.space, self._generator, tuner.branches)
        self._features = Features(self._candidates.reference(), tuner.max_steps)
        self._surrogate = Surrogate()
        self._spent = 0
        self._scores: dict[Config, float] = {}
        self._pending: dict[int, Config] = {}
        self._foreseen: dict[Config, None] = {}
        # What the last choice was made from: candidates with the improvements that are expected of them.
        self._promises: list[tuple[Config, float]] = []

    @property
    def _alpha(self) -> float:
        return self._tuner.alpha * (1 - self._spent / self._tuner.steps)

    @property
    def _is_starting(self) -> bool:
        """Whether configs are still drawn by chance."""
        scored = sum(score > -math.inf for score in self._scores.values())
        return len(self._scores) + len(self._pending) < self._tuner.startup or scored < 2

    def choose(self) -> Config | None:
        """Return the next config; None where no candidate can be paid for."""
        is_blind = self._generator.random() < self._tuner.blind
        found = self._affordable(self._candidates.around(self._best(), self._foreseen))
        configs = [config for config, _ in found]
        promised = self._expected(configs)
        self._promises = list(zip(configs, promised.tolist(), strict=True))
        if self._is_starting:
            return next((config for config, _ in self._affordable(self._candidates.fresh())), None)
        if not found:
            return None
        prices = np.array([price for _, price in found], dtype=float)
        worth = promised if is_blind else promised / prices**self._alpha
        return configs[int(np.argmax(worth))]

    def foresee(self, config: Config) -> list[Config]:
        """Return candidates that leave a config where branches are most likely, one for each step."""
        steps = self._tuner.max_steps
        begins = steps - self._prices.of(config)
        chances: defaultdict[int, float] = defaultdict(float)
        first: dict[int, tuple[float, Config]] = {}
        near = self._candidates.near(config, NEAR)
        for other, promised in [*self._promises, *zip(near, self._expected(near), strict=True)]:
            parts = other.first_difference(config, steps)
            if parts is not None and parts > begins:
                worth = promised / (steps - parts) ** self._alpha
                chances[parts] += worth
                if parts not in first or worth > first[parts][0]:
                    first[parts] = (worth, other)
        likely = sorted(chances, key=lambda parts: (-chances[parts], parts))[:KEPT]
        chosen = [first[parts][1] for parts in likely]
        self._foreseen.update(dict.fromkeys(chosen))
        self._prices.foresee(chosen)
        return chosen

    def ask(self, trial: int, config: Config) -> None:
        """A config is trained."""
        self._spent += self._prices.of(config)
        self._prices.ask(config)
        self._pending[trial] = config
        self._foreseen.pop(config, None)

    def observe(self, result: Result) -> None:
        """Learn what came of a config."""
        if result.final:
            self._scores[self._pending.pop(result.trial.number)] = self._tuner.score(result)

    def _best(self) -> list[Config]:
        return sorted(self._scores, key=lambda config: -self._scores[config])

    def _affordable(self, configs: list[Config]) -> list[tuple[Config, int]]:
        """Return the configs that are new and within what is left, with their prices."""
        left = self._tuner.steps - self._spent
        priced = ((config, self._prices.of(config)) for config in configs)
        return [(config, price) for config, price in priced if 0 < price <= left]

    def _expected(self, configs: list[Config]) -> Numbers:
        """Return what is expected of configs: the same of all, until enough is known.

        What is under way is taken for as good as the median so far.
        """
        if self._is_starting or not configs:
            return np.ones(len(configs))
        scores = list(self._scores.values())
        known = [*self._scores, *self._pending.values()]
        scores += [float(np.median(scores))] * len(self._pending)
        return self._surrogate.expected_improvement(
            self._features.of(known), scores, self._features.of(configs)
        )
