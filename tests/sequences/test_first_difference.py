"""Where two sequences part: exactly where their values differ, found without looking where laws can tell."""

from __future__ import annotations

import pytest
from hypothesis import given
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
    curves,
    first_difference,
    laws,
)
from sequences.strategies import LONGEST, alike, configs, sequences

FAR = 10**6


def differ(first: object, second: object) -> bool:
    return isinstance(first, bool) != isinstance(second, bool) or first != second


def brute_force(first: Sequence, second: Sequence, until: int) -> int | None:
    return next((step for step in range(until) if differ(first.value(step), second.value(step))), None)


@given(st.tuples(sequences(), sequences()) | alike(), st.integers(0, LONGEST))
def test_parting_is_the_first_step_at_which_values_differ(
    pair: tuple[Sequence, Sequence], until: int
) -> None:
    first, second = pair
    expected = brute_force(first, second, until)
    assert first_difference(first, second, until) == expected
    assert first_difference(second, first, until) == expected


@given(alike(), st.lists(st.integers(0, LONGEST), min_size=2, max_size=4))
def test_asking_again_and_further_gives_the_same_as_asking_once(
    pair: tuple[Sequence, Sequence], horizons: list[int]
) -> None:
    first, second = pair
    for until in horizons:
        assert first_difference(first, second, until) == brute_force(first, second, until)


@given(configs(), configs(), st.integers(0, LONGEST))
def test_configs_part_where_the_first_of_their_sequences_does(
    first: Config, second: Config, until: int
) -> None:
    expected = next((step for step in range(until) if first.key(step) != second.key(step)), None)
    assert first.first_difference(second, until) == expected


@given(sequences(), sequences(), sequences(), st.integers(1, LONGEST))
def test_of_three_sequences_no_one_parts_first_alone(
    first: Sequence, second: Sequence, third: Sequence, until: int
) -> None:
    # Agreeing up to a step is an equivalence, so the two earliest of the three partings are equal.
    steps = sorted(
        until if (step := first_difference(one, other, until)) is None else step
        for one, other in ((first, second), (second, third), (first, third))
    )
    assert steps[0] == steps[1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (MultiStep(0.1, [90], 0.1), Piecewise([0.1, 0.01], [90])),
        (Exponential(0.1, 1.0), Constant(0.1)),
        (Constant(128), Constant(128.0)),
        (Constant(0.1), Constant(0.1000000000000001)),
        (MultiStep(128, [40], 2), Piecewise([128.0, 256.0], [40])),
        (Exponential(0.1, 0.5), Exponential(0.1, 0.5).then(Exponential(0.05, 0.5), at=1)),
        (Exponential(1, 0.1), Exponential(1, 0.1).then(Exponential(1e-8, 0.1), at=8)),
        (Exponential(1, 3), Exponential(1, 3).then(Exponential(9, 3), at=2)),
        (Exponential(0.1, 0.95), Exponential(0.1, 0.95).then(Exponential(0.095, 0.95), at=1)),
        (Linear(0.1, 0, 100), Polynomial(0.1, 100)),
        (Linear(0, 1, 100).then(Linear(0.5, 1, 50), at=50), Linear(0, 1, 100)),
        (Warmup(4, 0.1), Linear(0.02, 0.1, 4)),
        (Linear(0, 1, 5).then(Exponential(0.1, 0.95), at=0), Exponential(0.1, 0.95)),
        (Warmup(4, Exponential(0.1, 0.95)), Linear(0.02, 0.1, 4).then(Exponential(0.1, 0.95), at=4)),
        (Warmup(4, CosineRestarts(0.1, 20)), Linear(0.02, 0.1, 4).then(CosineRestarts(0.1, 20), at=4)),
        (Warmup(0, Cosine(0.1, 20)), Cosine(0.1, 20)),
        (Cosine(0.1, 10), Cosine(0.1, 10).then(Cosine(0.1, 10), at=20)),
        (Cosine(0.1, 10), Cosine(0.1, 10).then(Cosine(0, 10, 0.1), at=10)),
        (InverseSqrt(1, 4), InverseSqrt(1, 4).then(InverseSqrt(0.5, 16), at=12)),
        (Cyclic(0.1, 0.2, 5, gamma=0.9), Cyclic(0.1, 0.2, 5, 5)),
        (CosineRestarts(0.1, 10, end=0.1), Constant(0.1)),
        (OneCycle(1, 11, anneal="linear", div=10, final_div=1, warm=1.0), Linear(0.1, 1, 10)),
        (Constant(0.1).then(0.01, at=7).then(0.1, at=7), Constant(0.1)),
    ],
)
def test_one_thing_written_in_two_ways_never_parts_and_is_not_scanned(
    first: Sequence, second: Sequence, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluations = count_evaluations(monkeypatch)
    assert first_difference(first, second, FAR) is None
    assert len(evaluations) <= 20
    for step in range(300):
        assert first.value(step) == second.value(step)


def count_evaluations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with every value that is worked out."""
    seen: list[int] = []
    functions = (
        (curves, "rounded"),
        (curves, "rounded_ratio"),
        (laws, "rounded_ratio"),
        (laws, "rounded_value"),
    )
    for module, name in functions:
        original = getattr(module, name)

        def counting(*args: object, original: object = original) -> object:
            seen.append(1)
            return original(*args)  # type: ignore[operator]

        monkeypatch.setattr(module, name, counting)
    return seen


@pytest.mark.parametrize(
    ("first", "second", "step"),
    [
        (Constant(0.1), Constant(0.2), 0),
        (Constant(True), Constant(1), 0),
        (Constant("1"), Constant(1), 0),
        (CosineRestarts(0.1, 20), Cosine(0.1, 20), 20),
        (Step(0.1, 30), MultiStep(0.1, [30, 60, 90]), 120),
        (Step(0.1, 1000), MultiStep(0.1, [1000 * k for k in range(1, 10)]), 10_000),
        (MultiStep(0.1, [90]), Constant(0.1), 90),
        (Exponential(0.1, 0.95).then(0.01, at=999), Exponential(0.1, 0.95), 999),
        (Warmup(5, Cosine(0.1, 100)), Warmup(5, CosineRestarts(0.1, 100)), 105),
        (Warmup(5, Cosine(0.1, 100)), Warmup(5, Constant(0.1)), 6),
        (Piecewise([0, False], [3]), Constant(0), 3),
        (Table([0.1] * 50 + [0.2] * 50), Constant(0.1), 50),
    ],
)
def test_sequences_that_begin_alike_part_where_they_first_differ(
    first: Sequence, second: Sequence, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluations = count_evaluations(monkeypatch)
    assert first_difference(first, second, FAR) == step
    assert len(evaluations) <= 40
    assert first_difference(first, second, step) is None
    assert first_difference(first, second, step + 1) == step


class Counted:
    """A function of the step that knows how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, step: int) -> float:
        self.calls += 1
        return 0.1


def test_a_function_is_asked_once_for_each_step_however_often_its_sequence_is_compared() -> None:
    counted = Counted()
    own, plain = Function(counted), Constant(0.1)
    for until in (10, 100, 50, 100, 200):
        assert first_difference(own, plain, until) is None
    assert counted.calls == 200


def test_the_same_function_is_not_called_at_all_to_compare_it_with_itself() -> None:
    counted = Counted()
    first = Constant(0.1).then(Function(counted), at=3)
    second = Constant(0.1).then(0.1, at=2).then(Function(counted), at=3)
    assert first_difference(first, second, FAR) is None
    assert counted.calls == 0


def test_long_chains_that_share_their_beginning_part_at_the_last_link() -> None:
    chain: Sequence = Constant(0.1)
    for link in range(1, 500):
        chain = chain.then(Exponential(0.1, 0.5 + link / 10_000), at=10 * link)
    other = chain.then(0.3, at=5_000)
    assert first_difference(chain, other, FAR) == 5_000
