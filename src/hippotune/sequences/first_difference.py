"""Where two sequences part: the first step at which their values differ.

The answer is that of comparing the values at every step. Where both are in one and the same part, or under
equal laws, nothing is compared and the whole overlap is skipped; values are looked at only where the laws
differ.

Pairs that begin alike are remembered with how far they have been compared, so that asking again, or
further, costs no more than what is new. The memory is bounded; forgetting costs time, never the answer.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from hippotune.sequences.base import Sequence
from hippotune.sequences.laws import Flat
from hippotune.sequences.values import same

_REMEMBERED: Final = 1 << 16

_Pair = tuple[Sequence, Sequence]
_memory: Final[dict[_Pair, tuple[int, bool]]] = {}
"""For a pair: a step before which all values are equal, and whether they differ at it."""


def first_difference(first: Sequence, second: Sequence, until: int) -> int | None:
    """Return the first step before `until` at which the values differ; None where there is none."""
    if first is second or until <= 0:
        return None
    if not same(first.value(0), second.value(0)):
        return 0
    if first == second:
        return None
    pair = (first, second) if hash(first) <= hash(second) else (second, first)
    step, parted = _memory.get(pair, (1, False))
    if not parted and step < until:
        step, parted = _compare(first, second, step, until)
        _remember(pair, step, parted)
    return step if parted and step < until else None


def _compare(first: Sequence, second: Sequence, step: int, until: int) -> tuple[int, bool]:
    """Return the first step from `step` on at which values differ and True, or `until` and False."""
    while step < until:
        mine, mine_from, mine_ends = first.part(step)
        other, other_from, other_ends = second.part(step)
        if mine_from == other_from and mine == other:
            step = min(mine_ends, other_ends)
            continue
        law, law_ends = first.piece(step)
        other_law, other_law_ends = second.piece(step)
        end = min(until, law_ends, other_law_ends)
        if law != other_law:
            if isinstance(law, Flat) and isinstance(other_law, Flat):
                return step, True
            for at in range(step, end):
                if not same(law.value(at), other_law.value(at)):
                    return at, True
        step = end
    return until, False


def _remember(pair: _Pair, step: int, parted: bool) -> None:
    if len(_memory) >= _REMEMBERED:
        for oldest in list(islice(_memory, _REMEMBERED // 4)):
            del _memory[oldest]
    _memory[pair] = (step, parted)
