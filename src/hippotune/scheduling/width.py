"""How wide: the rule that shares slots out over work of different length, in exact arithmetic.

Every piece of work has a time h, which is what it still takes on one whole slot. Its width is its share of
all the time there is, ``floor(h · slots / Σh)``, but at most `max_width`; what is worth less than one slot
shares one with others, at most `packing` of them. That is the published formula, `share`. It is completed by
two rules:

* If more slots are needed than there are, the longest go first and the rest waits.
* What is left over goes, one step at a time, to the path that would finish last (`spread`).

Widths are 0 (waits), 1/packing, or whole numbers. A piece of work may be tied to fewer widths than these: it
has a ladder, the widths that it can have, in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from heapq import heappop, heappush
from math import ceil

Time = int | float | Fraction
Speed = Callable[[Fraction], float | Fraction]
Ladder = tuple[Fraction, ...]

WAITS, WHOLE = Fraction(0), Fraction(1)


@cache
def ladder(packing: int, max_width: int) -> Ladder:
    """Return all widths that there are: 1/packing, 1, 2, …, max_width."""
    whole = tuple(Fraction(width) for width in range(1, max_width + 1))
    return whole if packing == 1 else (Fraction(1, packing), *whole)


def _whole(width: Fraction) -> int:
    """Return the slots that a width has to itself."""
    return width.numerator if width.denominator == 1 else 0


def share(time: Time, total: Time, slots: int, steps: Ladder) -> Fraction:
    """Return the widest step of a ladder within a share of the slots; its narrowest at least."""
    if not total:
        return steps[0]
    portion = Fraction(time) * slots // Fraction(total)
    return next((step for step in reversed(steps) if 1 <= _whole(step) <= portion), steps[0])


def fitted(times: Sequence[Time], wanted: Sequence[Fraction], slots: int) -> list[Fraction]:
    """Return the widths wanted as far as slots go: the longest first, the rest waits."""
    chosen = [WAITS] * len(times)
    capacity = Capacity(slots)
    for index in longest_first(times):
        if capacity.take(WAITS, wanted[index]):
            chosen[index] = wanted[index]
    return chosen


def longest_first(times: Sequence[Time]) -> list[int]:
    """Return the indices in the order in which slots are given out."""
    return sorted(range(len(times)), key=lambda each: (-times[each], each))


class Capacity:
    """Slots, and how much of them is taken."""

    def __init__(self, slots: int, taken: Iterable[Fraction] = ()) -> None:
        self._left = slots
        self._packed = Fraction(0)
        for width in taken:
            self._change(WAITS, width)

    def _change(self, before: Fraction, after: Fraction) -> int:
        """Change a width; return what is left then, which may be less than nothing."""
        self._left -= _whole(after) - _whole(before)
        for width, sign in ((after, 1), (before, -1)):
            if width.denominator > 1:
                self._left += ceil(self._packed)
                self._packed += sign * width
                self._left -= ceil(self._packed)
        return self._left

    def take(self, before: Fraction, after: Fraction) -> bool:
        """Change a width, if there is room for that."""
        if self._change(before, after) < 0:
            self._change(after, before)
            return False
        return True


def spread(
    times: Sequence[Time],
    chosen: Sequence[Fraction],
    slots: int,
    ladders: Sequence[Ladder],
    speed: Speed,
) -> list[Fraction]:
    """Hand out what is left over, one step at a time, to the path that would finish last and can use it.

    What waits comes before all else. A step that would make nothing faster is not taken.
    """
    given = list(chosen)
    capacity = Capacity(slots, given)
    queue: list[tuple[bool, Fraction, Fraction, int, Fraction]] = []

    def enter(index: int) -> None:
        """Queue what can grow: waiting paths first, then the one that would finish last."""
        at = given[index]
        step = next((each for each in ladders[index] if each > at), None)
        if step is None or (at and speed(step) <= speed(at)):
            return
        time = Fraction(times[index])
        end = time / Fraction(speed(at)) if at else Fraction(0)
        heappush(queue, (at > 0, -end, -time, index, step))

    for index in range(len(given)):
        enter(index)
    while queue:
        *_, index, step = heappop(queue)
        if capacity.take(given[index], step):  # otherwise what is left is too little, and stays so
            given[index] = step
            enter(index)
    return given
