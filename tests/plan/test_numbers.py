"""Logged numbers in columns: nothing is lost by joining or cutting them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hippotune.plan.numbers import Logged, in_columns, joined, within

Rows = list[tuple[int, dict[str, float]]]
numbers = st.dictionaries(st.sampled_from("abc"), st.floats(allow_nan=False), min_size=1)


@st.composite
def steps_with_numbers(draw: st.DrawFn) -> Rows:
    steps = sorted(draw(st.sets(st.integers(1, 50), max_size=20)))
    return [(step, draw(numbers)) for step in steps]


def rows_of(logged: Logged) -> Rows:
    steps, columns = logged
    return [
        (step, {name: number for name, column in columns.items() if (number := column[place]) is not None})
        for place, step in enumerate(steps)
    ]


@given(steps_with_numbers())
def test_columns_hold_what_the_rows_do(rows: Rows) -> None:
    assert rows_of(in_columns(rows)) == rows


@given(steps_with_numbers(), st.lists(st.integers(0, 20)))
def test_parts_that_are_joined_are_the_whole(rows: Rows, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(rows)]
    parts = [in_columns(rows[first:last]) for first, last in pairwise(edges)]
    assert rows_of(joined(parts)) == rows


@given(steps_with_numbers(), st.integers(0, 50), st.integers(0, 50))
def test_a_part_has_the_steps_after_one_up_to_another(rows: Rows, after: int, last: int) -> None:
    part = within(in_columns(rows), after, last)
    assert rows_of(part) == [(step, row) for step, row in rows if after < step <= last]
    assert all(any(number is not None for number in column) for column in part[1].values())
