"""How the engine is to work: what tuners read, how wide, until when, and whether anything may start."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hippotune.engine.checkpoints import Checkpoints
from hippotune.engine.lease_updates import LeaseUpdates
from hippotune.engine.state import State
from hippotune.protocol.events import (
    ActionTaken,
    DeadlineSet,
    Halted,
    MetricsRequired,
    OthersWait,
    OwnerSet,
    Paused,
    Resumed,
    ServedElsewhere,
    SlotsAwaited,
    StudyClosed,
    WidthChanged,
)


@dataclass(eq=False, repr=False)
class ControlEvents:
    """Handles the events of those who run studies."""

    _state: State
    _updates: LeaseUpdates
    _checkpoints: Checkpoints

    def metrics_required(self, event: MetricsRequired) -> None:
        """A study's tuner reads these metrics too."""
        known = self._state.requirements.get(event.study, frozenset())
        self._state.requirements[event.study] = known | event.metrics

    def study_closed(self, event: StudyClosed) -> None:
        """A study is closed."""
        self._state.requirements.pop(event.study, None)
        self._checkpoints.forget_best(event.study)

    def width_changed(self, event: WidthChanged) -> None:
        """Another policy chooses widths from now on."""
        self._state.use(event.policy)

    def slots_awaited(self, event: SlotsAwaited) -> None:
        """Widths that are chosen once wait for their slots."""
        self._state.slots_awaited = event.slots

    def deadline_set(self, event: DeadlineSet) -> None:
        """A study has limits, or none any more."""
        self._state.deadlines.set(event.study, event.at, event.worker_seconds)

    def action_taken(self, event: ActionTaken) -> None:
        """A study or a person did something that the plan is to know."""
        self._state.plan.apply(event.action)
        self._state.facts.append(event.action)

    def owner_set(self, event: OwnerSet) -> None:
        """A study belongs to a user."""
        self._state.leases.accounts.give(event.study, event.owner)

    def others_wait(self, event: OthersWait) -> None:
        """Others may be waiting for slots."""
        self._state.most_slots = event.slots

    def served_elsewhere(self, event: ServedElsewhere) -> None:
        """Users were served by other plans, too."""
        for owner, seconds in event.users.items():
            self._state.leases.accounts.charge_elsewhere(owner, Fraction(seconds))

    def paused(self, _: Paused) -> None:
        """Nothing starts for now."""
        self._state.paused = True

    def resumed(self, _: Resumed) -> None:
        """Leases may start again."""
        self._state.paused = False

    def halted(self, _: Halted) -> None:
        """Nothing starts any more, and what runs stops at the end of its step."""
        self._state.halted = True
        for lease in self._state.leases.training():  # a proof is a step long
            self._updates.stop_at(lease, lease.at)
