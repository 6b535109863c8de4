"""Early stopping at milestones: compare all trials there, and train only the best ones further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.spaces.space import Space
from hippotune.tuners.base import Trials
from hippotune.tuners.bracket import Bracket, run_brackets
from hippotune.tuners.proposer import Listed
from hippotune.tuners.rungs import check_rungs
from hippotune.tuners.space_tuner import SpaceTuner


class EarlyStop(SpaceTuner):
    """Train all trials to the first of `milestones`, the best `keep[0]` to the second, and so on.

    ``EarlyStop(space, "loss", "min", milestones=[5, 10], keep=[4])`` trains a space of 8 configs for 5
    steps and the best 4 of them for 10. Trials that are certain to be kept go on before the others have
    finished. Trials that have not parted yet hold one place, as in `SuccessiveHalving`.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any],
        metric: str,
        mode: str,
        milestones: Sequence[int],
        keep: Sequence[int],
        trials: int | None = None,
        seed: int = 0,
        rungs: str = "states",
    ) -> None:
        self.rungs = check_rungs(rungs)
        milestones, keep = checks.several("milestones", milestones), checks.several("keep", keep)
        self.milestones = [checks.whole("milestones", step) for step in milestones]
        self.keep = [checks.whole("keep", kept) for kept in keep]
        if not self.milestones or any(late <= early for early, late in pairwise(self.milestones)):
            raise InvalidInput(
                f"milestones is {list(milestones)}; expected rising step counts such as [5, 10]"
            )
        if len(self.keep) != len(self.milestones) - 1:
            raise InvalidInput(
                f"keep is {list(keep)}; expected {len(self.milestones) - 1} numbers, "
                "one for each milestone but the last"
            )
        super().__init__(space, metric, mode, self.milestones[-1], trials, seed)
        sizes = [self.number, *self.keep]
        if any(later > earlier for earlier, later in pairwise(sizes)):
            raise InvalidInput(
                f"keep is {list(keep)}; expected falling numbers of at most {sizes[0]}, the trials there are"
            )

    async def run(self, trials: Trials) -> None:
        """Run one bracket."""
        configs = self.foreseen(trials, self.milestones)
        bracket = Bracket(self.milestones, [len(configs), *self.keep], self.rungs, self.seed)
        await run_brackets(trials, [bracket], Listed(configs), self.score, at_once=True, rungs=self.rungs)
