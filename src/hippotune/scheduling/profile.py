"""How long a step takes: measured while training, relative to the plan's usual step, and by width.

Paths are compared by time, and only ratios matter for that. So a node's pace is kept relative to the usual
step: it starts at 1 (or at its parent's), needs no rebuilding when the usual step becomes known, and moves
only when a measurement says something materially different.

The speed-up of several slots over one starts from a guess, or from the user's own figures, and is learned
from leases of that width by comparing them with the same nodes on one slot. An unmeasured
width starts from the guess, corrected by the error of the guess at the nearest known width.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from hippotune.plan.facts import MeasuredSteps
from hippotune.plan.node import Node
from hippotune.scheduling.width import WHOLE

# A pace moves when the measured one differs by more than this: noise must not reorder equal paths.
_MATERIAL = 1.25
# Weight of the past per observed step; about the last 200 steps count.
_MEMORY = 0.995
# The guess: the part of their speed that each further slot costs all slots.
_FRICTION = 0.07
# The quantile of the latest starts, and of how many, that counts as the time of a start, as in HyperSched.
_MOST_STARTS, _STARTS = 0.9, 200


class Profile:
    """Learns the pace of nodes from the steps that were trained along them, and what width brings.

    `startup` are the seconds within which nine of ten starts from a checkpoint or on several slots are over:
    the 90th percentile of the latest ones, by linear interpolation; 0 before the first.
    """

    def __init__(self, scaling: Mapping[float, float] | None = None) -> None:
        self._seconds = 0.0
        self._steps = 0.0
        self._per_node: dict[Node, tuple[float, int]] = {}
        self._given = {  # a third as a float is only nearly one
            Fraction(width).limit_denominator(1000): float(speed) for width, speed in (scaling or {}).items()
        }
        self._learned: dict[Fraction, tuple[float, float]] = {}
        self._speeds: dict[tuple[int, int], float] = {}  # as they are known at this moment, by fraction
        self._starts: deque[float] = deque(maxlen=_STARTS)
        self.startup = 0.0

    @property
    def usual(self) -> float | None:
        """Seconds that a usual step takes on one slot; None before anything was trained."""
        return self._seconds / self._steps if self._steps else None

    @property
    def restart(self) -> float:
        """What going on elsewhere costs, in usual steps: what starting took, and half a step to wait for."""
        usual = self.usual
        return 0.5 + (self.startup / usual if self._starts and usual else 0.5)

    def observe(self, node: Node, steps: int, seconds: float, width: Fraction = WHOLE) -> bool:
        """Take in that `steps` steps along `node` took `seconds`; return whether that changes its pace."""
        if steps <= 0:
            return False
        is_whole = width == 1
        if not is_whole and node in self._per_node and (usual := self.usual) and seconds > 0:
            self._observe_speed(width, steps, node.pace * usual * steps / seconds)
            return False
        seconds *= self.speed(width)
        fade = _MEMORY**steps
        self._seconds = self._seconds * fade + seconds
        self._steps = self._steps * fade + steps
        if not is_whole:
            return False
        spent, trained = self._per_node.get(node, (0.0, 0))
        spent, trained = spent + seconds, trained + steps
        self._per_node[node] = (spent, trained)
        return self._set_pace(node, self._seconds / self._steps)

    def _set_pace(self, node: Node, usual: float) -> bool:
        """Set a node's pace to the measured one if that differs materially; return whether it does."""
        spent, trained = self._per_node.get(node, (0.0, 0))
        if usual > 0 and trained >= 3 and spent > 0:  # a clock may be too coarse to see the steps
            pace = spent / trained / usual
            if not 1 / _MATERIAL < pace / node.pace < _MATERIAL:
                node.pace = pace
                return True
        return False

    def recall(self, nodes: Sequence[Node], measured: Iterable[MeasuredSteps]) -> None:
        """Take in what steps took before, the least recent first, and give all nodes their paces.

        A node that was not measured has its parent's pace. Old measurements weigh no more than
        the last steps of a run, so that a faster machine soon shows.
        """
        known = [_recent(each) for each in measured]
        for each in known:
            if each.width == 1:
                fade = _MEMORY**each.steps
                self._seconds = self._seconds * fade + each.seconds
                self._steps = self._steps * fade + each.steps
                self._per_node[nodes[each.node]] = (each.seconds, each.steps)
        usual = self.usual
        if usual:
            for node in nodes:  # parents come before their branches
                node.pace = node.parent.pace if node.parent else 1.0
                self._set_pace(node, usual)
        for each in known:
            if each.width != 1:
                width = Fraction(each.width).limit_denominator(1000)
                self.observe(nodes[each.node], each.steps, each.seconds, width)

    def observe_start(self, seconds: float) -> None:
        """Take in what a lease took to start from a checkpoint, or on several slots."""
        self._starts.append(seconds)
        starts, place = sorted(self._starts), _MOST_STARTS * (len(self._starts) - 1)
        low, high = starts[math.floor(place)], starts[math.ceil(place)]
        self.startup = low + (place - math.floor(place)) * (high - low)

    def _observe_speed(self, width: Fraction, steps: int, speed: float) -> None:
        fade = _MEMORY**steps
        total, weight = self._learned.get(width, (self.speed(width), 1.0))
        self._learned[width] = (total * fade + speed * steps, weight * fade + steps)
        self._speeds.clear()

    def speed(self, width: Fraction) -> float:
        """Return how many times faster training is at a width than on one whole slot."""
        key = width.numerator, width.denominator  # which is much quicker to look up
        if key not in self._speeds:
            self._speeds[key] = self._speed(width)
        return self._speeds[key]

    def _speed(self, width: Fraction) -> float:
        if width in self._learned:
            total, weight = self._learned[width]
            return total / weight
        if width in self._given or width == WHOLE:
            return self._given.get(width, 1.0)
        if width < 1:
            return float(width)
        known = [each for each in {*self._learned, *self._given} if each > 1]
        nearest = min(known, key=lambda each: (abs(each - width), each), default=None)
        return _guess(width) * (1.0 if nearest is None else self._speed(nearest) / _guess(nearest))


def _recent(times: MeasuredSteps) -> MeasuredSteps:
    """Return the measurement, scaled down to the steps that still count."""
    steps = min(times.steps, round(1 / (1 - _MEMORY)))
    return times._replace(steps=steps, seconds=times.seconds * steps / times.steps)


def _guess(width: Fraction) -> float:
    return float(width) / (1 + _FRICTION * (float(width) - 1))
