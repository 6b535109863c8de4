"""A list of trials, each with a length of its own: a ladder of horizons, or whatever else is no grid."""

from __future__ import annotations

from collections.abc import Iterable

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.sequences.config import Config, ConfigLike
from hippotune.tuners.base import TrialGroup, Trials, Tuner, check_mode


class TrialList(Tuner):
    """Train each config as far as it says, all in one trial group.

    ``TrialList([({"lr": WSD(0.1, steps)}, steps) for steps in (1_000, 2_000, 4_000)], "val_loss", "min")``
    """

    def __init__(self, trials: Iterable[tuple[ConfigLike, int]], metric: str, mode: str) -> None:
        self._asks: list[tuple[Config, int]] = []
        asks = checks.pairs("trials", trials, "a config and the steps to train it for")
        for number, (config, steps) in enumerate(asks):
            self._asks.append((Config.of(config), checks.whole(f"the length of trial {number}", steps)))
        if not self._asks:
            raise InvalidInput("trials is empty; expected pairs of a config and the steps to train it for")
        self.max_steps = max(steps for _, steps in self._asks)
        self.metric = checks.text("metric", metric, "accuracy")
        self.mode = check_mode(mode)

    def asks(self) -> list[tuple[Config, int]]:
        """Return all configs, with how far each is trained."""
        return list(self._asks)

    def configs(self) -> list[Config]:
        """Return all configs."""
        return [config for config, _ in self._asks]

    @property
    def number(self) -> int:
        """How many trials there are."""
        return len(self._asks)

    async def run(self, trials: Trials) -> None:
        """Submit everything and wait for it."""
        await trials.all(trials.submit(TrialGroup(tuple(self._asks))))

    def __repr__(self) -> str:
        return f"TrialList({len(self._asks)} trials, {self.metric!r}, {self.mode!r})"
