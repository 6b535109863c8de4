"""The trials that a tuner waits for, and the states in the plan that they come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hippotune.plan.facts import Position
from hippotune.tuners.base import Trial


class OpenTrials:
    """Trials whose final result the tuner has not taken yet. Several may wait for one state."""

    def __init__(self) -> None:
        self._positions: dict[Trial, Position] = {}
        self._waiting: Counter[Position] = Counter()

    def add(self, trial: Trial, position: Position) -> None:
        """A trial waits for a state."""
        self._positions[trial] = position
        self._waiting[position] += 1

    def discard(self, trial: Trial) -> None:
        """A trial waits no more, if it did."""
        position = self._positions.pop(trial, None)
        if position is not None:
            self._waiting[position] -= 1
            if not self._waiting[position]:
                del self._waiting[position]

    def wait_for(self, position: Position | None) -> bool:
        """Whether a trial waits for this state."""
        return position in self._waiting

    @property
    def states(self) -> int:
        """How many different states the trials wait for."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, trial: object) -> bool:
        return trial in self._positions
