"""Hypothesis strategies for sequences and configs.

Values, milestones and lengths come from short lists, so that two draws often begin alike, and equal values
are often written in different ways: that is where merging can go wrong.
"""

from __future__ import annotations

from collections.abc import Sequence as Listing
from typing import Any

from hypothesis import strategies as st

from hippotune.sequences import (
    Config,
    Constant,
    Cosine,
    CosineRestarts,
    Cyclic,
    Exponential,
    Function,
    InverseSqrt,
    Linear,
    MultiStep,
    OneCycle,
    Piecewise,
    Polynomial,
    Sequence,
    Step,
    Table,
    Warmup,
)

LONGEST = 64
"""Tables have values for this many steps; ask drawn sequences for no more."""


def halved_at_ten(step: int) -> float:
    return 0.1 if step < 10 else 0.05


def always_a_tenth(step: int) -> float:
    return 0.1


def _lists(items: st.SearchStrategy[int], most: int = 3) -> st.SearchStrategy[list[int]]:
    return st.lists(items, max_size=most, unique=True).map(sorted)


STARTS = st.sampled_from([0.1, 0.1, 0.1, 0.05, 1, 0.0])
NUMBERS = st.sampled_from([0.1, 0.05, 0.01, 0.0, 1, 0.2])
WHOLE = st.sampled_from([128, 256, 1])
GAMMAS = st.sampled_from([0.1, 0.5, 1.0, 1, 0.95])
LENGTHS = st.sampled_from([1, 2, 5, 10, 20])
MILESTONES = st.sampled_from([5, 10, 20, 30])
WORDS = st.sampled_from(["sgd", "adam", True, False, 1, 1.0])


def _piecewise(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Sequence]:
    return _lists(MILESTONES).flatmap(
        lambda steps: st.lists(values, min_size=len(steps) + 1, max_size=len(steps) + 1).map(
            lambda drawn: Piecewise(drawn, steps)
        )
    )


def simple_sequences() -> st.SearchStrategy[Sequence]:
    """Sequences of numbers that are not put together from others."""
    return st.one_of(
        st.builds(Constant, STARTS),
        st.builds(Linear, STARTS, NUMBERS, LENGTHS),
        st.builds(Exponential, STARTS, GAMMAS),
        st.builds(Polynomial, STARTS, LENGTHS, st.sampled_from([1.0, 2.0, 0.5]), NUMBERS),
        st.builds(InverseSqrt, STARTS, st.sampled_from([1, 4, 10.0])),
        st.builds(Step, STARTS, LENGTHS, GAMMAS),
        st.builds(Step, WHOLE, LENGTHS, st.sampled_from([1, 2])),
        st.builds(MultiStep, STARTS, _lists(MILESTONES), GAMMAS),
        st.builds(MultiStep, WHOLE, _lists(MILESTONES), st.sampled_from([1, 2])),
        _piecewise(NUMBERS),
        st.builds(Cosine, STARTS, LENGTHS, NUMBERS),
        st.builds(CosineRestarts, STARTS, LENGTHS, st.sampled_from([1, 2]), NUMBERS),
        st.builds(
            Cyclic,
            STARTS,
            NUMBERS,
            LENGTHS,
            st.none() | LENGTHS,
            st.sampled_from(["triangular", "triangular2", "exp_range"]),
            st.sampled_from([1.0, 0.9]),
        ),
        st.builds(
            OneCycle,
            NUMBERS,
            LENGTHS,
            st.sampled_from([0.3, 0.5]),
            st.sampled_from(["cos", "linear"]),
            three_phase=st.booleans(),
        ),
        st.just(Function(halved_at_ten)),
        st.just(Function(always_a_tenth)),
        st.sampled_from([halved_at_ten, always_a_tenth]).map(lambda fn: Function(fn, steps=LONGEST)),
        st.builds(
            Table, st.lists(NUMBERS, min_size=1, max_size=3).map(lambda few: (few * LONGEST)[:LONGEST])
        ),
    )


def _combined(inner: st.SearchStrategy[Sequence]) -> st.SearchStrategy[Sequence]:
    factors = st.sampled_from([None, 0.0, 0.1, 0.5, 1.0])
    return st.one_of(
        st.builds(Warmup, LENGTHS, inner, factors),
        st.builds(lambda first, second, at: first.then(second, at=at), inner, inner, MILESTONES),
    )


def number_sequences() -> st.SearchStrategy[Sequence]:
    """Sequences of numbers, put together up to a few levels deep."""
    return st.recursive(simple_sequences(), _combined, max_leaves=3)


def word_sequences() -> st.SearchStrategy[Sequence]:
    """Sequences of strings, booleans and the numbers that booleans could be taken for."""
    return st.builds(Constant, WORDS) | _piecewise(WORDS)


def sequences() -> st.SearchStrategy[Sequence]:
    """Sequences of every family; all of them have values for at least `LONGEST` steps."""
    numbers, words = number_sequences(), word_sequences()
    return st.sampled_from([numbers, numbers, numbers, words]).flatmap(lambda kind: kind)


def alike() -> st.SearchStrategy[tuple[Sequence, Sequence]]:
    """Two sequences with one beginning: how long it really is depends on what follows."""
    return st.tuples(sequences(), sequences(), sequences(), MILESTONES, MILESTONES).map(
        lambda drawn: (drawn[0].then(drawn[1], at=drawn[3]), drawn[0].then(drawn[2], at=drawn[4]))
    )


def configs(names: Listing[str] = ("bs", "lr", "optimizer")) -> st.SearchStrategy[Config]:
    """Configs with these names, so drawn that two of them often share their first steps."""
    return st.fixed_dictionaries({name: sequences() for name in names}).map(Config)
