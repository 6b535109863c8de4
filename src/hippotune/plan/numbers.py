"""Numbers that training logs, in columns: of each name, one for each step, and None where there is none."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

Columns = Mapping[str, tuple[float | None, ...]]
Logged = tuple[tuple[int, ...], Columns]
"""Steps in order, and a number for each of them by name."""


def in_columns(rows: Sequence[tuple[int, Mapping[str, float]]]) -> Logged:
    """Return rows of a step and its numbers as columns."""
    names = dict.fromkeys(name for _, numbers in rows for name in numbers)
    columns = {name: tuple([numbers.get(name) for _, numbers in rows]) for name in names}
    return tuple([step for step, _ in rows]), columns


def joined(parts: Iterable[Logged]) -> Logged:
    """Return what was logged in parts, one after the other, as a whole."""
    steps: list[int] = []
    columns: dict[str, list[float | None]] = {}
    for more, numbers in parts:
        for name, column in numbers.items():
            known = columns.setdefault(name, [])
            known += [None] * (len(steps) - len(known))
            known += column
        steps += more
    for known in columns.values():
        known += [None] * (len(steps) - len(known))
    return tuple(steps), {name: tuple(column) for name, column in columns.items()}


def within(logged: Logged, after: int, last: float) -> Logged:
    """Return what was logged at the steps after one, up to another, without names that have nothing there."""
    steps, numbers = logged
    here = slice(bisect_right(steps, after), bisect_right(steps, last))
    cut = ((name, column[here]) for name, column in numbers.items())
    return steps[here], {name: column for name, column in cut if column.count(None) < len(column)}
