"""Width policies: how many slots each piece of work gets.

A policy is a pure function of what runs, what could start, and how fast training is at each width. It is
consulted whenever work starts, ends or arrives. The engine starts work at the width that it is given,
as far as slots are free, and changes the width of what runs only where that pays for the restart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hippotune import checks
from hippotune.errors import InvalidInput
from hippotune.scheduling.width import Ladder, Speed, fitted, ladder, share, spread


@dataclass(frozen=True, slots=True)
class Contender:
    """A lease that runs, or a path that could start now.

    `time` is what it takes from here to its end on one slot, in usual steps; `width` what it has now, 0 where
    it has not started; `ladder` the widths that it can have; `worth` how much its study values it.
    """

    time: float
    width: Fraction
    ladder: Ladder
    worth: float = 0.0


class WidthPolicy(ABC):
    """Base of all policies.

    Parameters
    ----------
    packing : int
        How many leases may share one slot.
    max_width : int, optional
        How many slots one lease may have; by default all.
    scaling : Mapping[float, float], optional
        Known speed-ups by number of slots, such as ``{2: 1.87, 4: 3.42}``. The rest is
        guessed at first, and learned while training.
    """

    def __init__(
        self, packing: int = 1, max_width: int | None = None, scaling: Mapping[float, float] | None = None
    ) -> None:
        self.packing = checks.whole("packing", packing)
        self.max_width = None if max_width is None else checks.whole("max_width", max_width)
        self.scaling = _speed_ups(scaling)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(packing={self.packing}, max_width={self.max_width})"

    @property
    def resizes(self) -> bool:
        """Whether leases that run may be stopped to go on at another width."""
        return True

    def steps(self, slots: int) -> Ladder:
        """Return the widths possible on `slots` slots."""
        return ladder(self.packing, max(1, slots if self.max_width is None else min(self.max_width, slots)))

    @abstractmethod
    def widths(
        self, work: Sequence[Contender], slots: int, speed: Speed, beyond: float = 0.0
    ) -> list[Fraction]:
        """Return the width that each piece of work should have; 0 for what should wait.

        `beyond` is the time of all that could start too, but is not listed because there is no room for it.
        """


class Fluid(WidthPolicy):
    """Shares the slots out in proportion to the critical paths.

    Long paths, which the study would wait for, get several slots; where many short ones are ready, each gets
    a part of one. What is left over goes to the path that would finish last.

    Parameters
    ----------
    packing, max_width, scaling
        As for all policies.
    dynamic : bool
        Whether to give leases that run another width when others end or arrive, where that pays for the
        restart. Otherwise a lease keeps the width that it starts with.
    """

    def __init__(
        self,
        packing: int = 1,
        max_width: int | None = None,
        scaling: Mapping[float, float] | None = None,
        dynamic: bool = True,
    ) -> None:
        super().__init__(packing, max_width, scaling)
        self.dynamic = dynamic

    @property
    def resizes(self) -> bool:
        """Whether the policy is a dynamic one."""
        return self.dynamic

    def widths(
        self, work: Sequence[Contender], slots: int, speed: Speed, beyond: float = 0.0
    ) -> list[Fraction]:
        """Return widths by share of the critical paths, completed by what is left over."""
        total = sum((Fraction(each.time) for each in work), Fraction(beyond))
        times = [each.time for each in work]
        wanted = [share(each.time, total, slots, each.ladder) for each in work]
        return spread(times, fitted(times, wanted, slots), slots, [each.ladder for each in work], speed)


def _speed_ups(scaling: object) -> dict[float, float]:
    if scaling is None:
        return {}
    if not isinstance(scaling, Mapping) or not all(
        _is_above_0(width) and _is_above_0(speed) for width, speed in scaling.items()
    ):
        raise InvalidInput(
            f"scaling is {scaling!r}; expected speed-ups by width, such as {{2: 1.87, 4: 3.42}}"
        )
    if scaling.get(1, 1) != 1:
        raise InvalidInput(
            f"scaling is {scaling!r}; width 1 is what others are compared with: expected 1 there, or nothing"
        )
    return dict(scaling)


def _is_above_0(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
