"""Where the trials of a tuning are in its plan, shared with others or apart from them."""

from __future__ import annotations

from hippotune.plan.facts import Position
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.sequences.config import Config, ConfigLike
from hippotune.study.completion import Completion
from hippotune.study.plan_loop import PlanReadings
from hippotune.tuners.base import Child, Trial


class Placement:
    """See the module. `complete` makes configs of users those of the plan.

    Without `share`, a trial shares only with the trials that go on from it.
    """

    def __init__(self, readings: PlanReadings, share: bool, complete: Completion) -> None:
        self.share = share
        self.complete = complete
        self._readings = readings
        self._as_if_shared = Plan()

    def trial(self, who: ConfigLike | Child | Trial, number: int) -> Trial:
        """Return the trial that is asked for; a new one gets the number."""
        match who:
            case Trial():
                return who
            case Child(config, parent):
                return Trial(number, self.complete(config), _family(parent))
        return Trial(number, self.complete(Config.of(who)))

    def isolation_key(self, trial: Trial) -> str:
        """Return what keeps a trial apart from others: nothing, where trials share."""
        return "" if self.share else str(_family(trial))

    def node(self, trial: Trial, step: int) -> Node:
        """Return the node that a trial is on at a step; `LookupError` where it was never requested."""
        return self._readings.find(trial.config, step, self.isolation_key(trial))

    def position(self, who: Config | Trial, step: int) -> Position | None:
        """Return the state that a trial, or a new config, comes to at a step, if it was ever requested."""
        if isinstance(who, Config) and not self.share:
            return None
        trial = self.trial(who, 0)
        try:
            return self.node(trial, step).position(step)
        except LookupError:
            return None

    def state(self, trial: Trial, step: int) -> Position | None:
        """Return what a trial's state at a step is known by; None where it was never requested.

        Where nothing is shared, trials have the states that they would share: they are bit for bit the same,
        and a tuner decides as it does where they are trained once.
        """
        if not self.share:
            return self._as_if_shared.place(trial.config, step)[0].position(step)
        return self.position(trial, step)

    def unshared(self, config: Config, step: int) -> int:
        """Return how many steps a new config would have to be trained to get to `step`, as things are now."""
        return self._readings.unshared(self.complete(config), step) if self.share else step


def _family(trial: Trial) -> int:
    """Return the number of the trial that a line of parents began with."""
    return trial.number if trial.family is None else trial.family
