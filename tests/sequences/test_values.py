"""The values themselves: exact in decimal, whole where everything is whole, and the same wherever asked."""

from __future__ import annotations

import enum
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.errors import InvalidInput
from hippotune.sequences import (
    Constant,
    CosineRestarts,
    Cyclic,
    Exponential,
    Function,
    Linear,
    MultiStep,
    Piecewise,
    Sequence,
    Step,
    Table,
    Value,
    Warmup,
    as_sequence,
)


def first(count: int, sequence: Sequence) -> list[Value]:
    return [sequence.value(step) for step in range(count)]


def test_a_tenth_decayed_by_a_tenth_is_a_hundredth() -> None:
    assert 0.1 * 0.1 != 0.01
    for sequence in (Exponential(0.1, 0.1), Step(0.1, 1), MultiStep(0.1, [1, 2, 3])):
        assert first(4, sequence) == [0.1, 0.01, 0.001, 0.0001]


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 10**6))
def test_numbers_have_twelve_digits_at_every_step_and_whole_ones_all(number: float, step: int) -> None:
    value = Constant(number).value(step)
    is_whole = number.is_integer() and abs(number) < 2**63
    # As it is written, and not its exact binary value: that decides where the rest is exactly a half.
    assert value == (number if is_whole else float(f"{Decimal(repr(number)):.11e}"))
    assert math.copysign(1, value) == (1 if value == 0 else math.copysign(1, number))


def test_a_whole_number_keeps_its_digits_however_it_is_written() -> None:
    many = 1234567890123
    for written in (many, float(many), np.float64(many)):
        sequences = (
            Constant(written),
            Piecewise([written, 1], [5]),
            MultiStep(written, [5], 0.1),
            Linear(written, 2 * many, many),
            Table([written]),
        )
        for sequence in sequences:
            assert repr(sequence.value(0)) == "1234567890123"
    assert Linear(float(many), 2.0 * many, many).value(1) == many + 1


@given(st.integers() | st.integers(1, 10**12).flatmap(lambda n: st.integers(0, 30).map(lambda e: n * 10**e)))
def test_equal_whole_numbers_and_floats_are_one_value_of_one_type(number: int) -> None:
    """Trials that share a stage hand the same to setup, whichever of them is trained."""
    written_as_float = float(number)
    value, other = Constant(number).value(0), Constant(written_as_float).value(0)
    assert value == number
    if value == other:
        assert type(value) is type(other)
        assert repr(value) == repr(other)
    if written_as_float == number and abs(number) < 2**63:
        assert value == other


def test_schedules_give_whole_numbers_as_ints_where_a_constant_would() -> None:
    for sequence in (Step(128, 2, 2), MultiStep(128, [2], 0.5), Linear(8, 2, 3), Warmup(2, Constant(6.0))):
        for value in first(6, sequence):
            assert type(value) is type(Constant(value).value(0)) is int
    assert first(5, Step(128.0, 2, 2)) == [128, 128, 256, 256, 512]
    assert Step(3.0, 1, 3.0).value(25) == Step(3, 1, 3).value(25) == 3**26
    assert Step(3, 1, 3) == Step(3.0, 1, 3.0)
    assert [type(value) for value in first(3, MultiStep(1.0, [1, 2], 0.1))] == [int, float, float]


def test_whole_numbers_of_many_digits_are_told_apart() -> None:
    seed = 10**15 + 1
    assert Constant(seed) != Constant(seed + 1)
    assert Constant(seed) == Constant(float(seed))
    assert Constant(12345678901234567890).value(0) == 12345678901234567890
    assert repr(Constant(1e22).value(0)) == repr(Constant(10**22).value(0)) == "1e+22"


def test_strings_and_booleans_pass_through() -> None:
    assert first(3, Piecewise(["adam", "sgd", True], [1, 2])) == ["adam", "sgd", True]
    assert Constant(True).value(7) is True


def test_scalars_of_other_libraries_become_plain_values() -> None:
    class Optimizer(str, enum.Enum):  # noqa: UP042 - unlike a StrEnum, it does not print as its value
        SGD = "sgd"

    for given_value, plain in [
        (np.float64(0.1), 0.1),
        (np.int64(128), 128),
        (np.bool_(True), True),
        (Optimizer.SGD, "sgd"),
    ]:
        sequence = as_sequence(given_value)
        assert type(sequence.value(0)) is type(plain)
        assert sequence == Constant(plain)
    assert repr(Exponential(np.float64(0.1), np.float64(0.9))) == "Exponential(0.1, 0.9)"


def test_warmup_goes_up_by_equal_increments_and_wastes_no_step_at_zero() -> None:
    assert first(6, Warmup(4, 0.1)) == [0.02, 0.04, 0.06, 0.08, 0.1, 0.1]
    assert first(4, Warmup(2, Exponential(0.1, 0.5), start_factor=0.0)) == [0.0, 0.05, 0.1, 0.05]
    assert first(3, Warmup(0, Exponential(0.1, 0.5))) == [0.1, 0.05, 0.025]


def test_then_counts_the_steps_of_what_follows_from_zero() -> None:
    chain = Linear(0, 1, 4).then(Exponential(8, 0.5), at=2).then("done", at=5)
    assert first(7, chain) == [0.0, 0.25, 8.0, 4.0, 2.0, "done", "done"]


def test_values_far_out_are_what_float_arithmetic_gives() -> None:
    assert Exponential(0.1, 0.5).value(10**6) == 0.0
    assert Exponential(1, 10).value(10**6) == math.inf
    assert Step(0.1, 1).value(10**6) == 0.0
    assert CosineRestarts(0.1, 20).value(10**6) == 0.1
    assert Cyclic(0.1, 0.2, 1, mode="triangular2").value(10**6 + 1) == 0.1
    assert Exponential(0.1, 0.999999).value(27_000) == pytest.approx(0.1 * 0.999999**27_000, rel=1e-11)


def test_a_table_has_values_for_its_steps_only() -> None:
    table = Function(lambda step: 2 * step, steps=3)
    assert isinstance(table, Table)
    assert first(3, table) == [0, 2, 4]
    assert table.limit == 3
    with pytest.raises(InvalidInput, match="step 3 was asked"):
        table.value(3)
    assert table.then(0, at=3).limit is None
    assert Constant(0).then(table, at=10).limit == 13
    assert Warmup(4, Table([1, 2])).limit == 6


def test_a_function_is_not_called_before_a_value_is_needed() -> None:
    def never(step: int) -> float:
        raise AssertionError("called")

    hash(Function(never).then(0.1, at=5))


def test_a_function_that_returns_no_value_is_named_with_the_step() -> None:
    with pytest.raises(InvalidInput, match=r"at step 2 is \[\]"):
        Function(lambda step: []).value(2)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidInput, match=r"fn\(1\) is nan"):
        Function(lambda step: [0.1, math.nan][step], steps=2)
