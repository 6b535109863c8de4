"""What a sequence is: frozen, equal by its arguments, and the same after JSON, pickle and repr."""

from __future__ import annotations

import copy
import inspect
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.errors import InvalidInput
from hippotune.sequences import (
    Constant,
    Cosine,
    Cyclic,
    Exponential,
    Function,
    MultiStep,
    Piecewise,
    Polynomial,
    Sequence,
    Table,
    Then,
    Warmup,
    first_difference,
    from_json,
)
from hippotune.sequences.base import FAMILIES
from sequences import strategies
from sequences.strategies import LONGEST, halved_at_ten, sequences


@given(sequences())
def test_json_brings_back_an_equal_sequence(sequence: Sequence) -> None:
    again = from_json(json.loads(json.dumps(sequence.to_json())))
    assert again == sequence
    assert hash(again) == hash(sequence)
    assert [type(again.value(step)) for step in range(20)] == [
        type(sequence.value(step)) for step in range(20)
    ]


@given(sequences())
def test_pickle_and_copy_bring_back_an_equal_sequence_without_what_it_remembers(sequence: Sequence) -> None:
    before = len(pickle.dumps(sequence))
    hash(sequence)
    sequence.value(17)
    assert len(pickle.dumps(sequence)) == before
    for again in (pickle.loads(pickle.dumps(sequence)), copy.deepcopy(sequence), copy.copy(sequence)):
        assert again == sequence
        assert hash(again) == hash(sequence)


@given(sequences())
def test_repr_is_the_python_that_makes_the_sequence(sequence: Sequence) -> None:
    shown = repr(sequence)
    if "..." not in shown:  # a long table is shortened
        assert eval(shown, {**FAMILIES, **vars(strategies)}) == sequence


@given(sequences(), sequences())
def test_equal_sequences_have_equal_hashes_and_never_part(first: Sequence, second: Sequence) -> None:
    assert (first == second) == (second == first)
    assert (first == second) != (first != second)
    if first == second:
        assert hash(first) == hash(second)
        assert first_difference(first, second, LONGEST) is None


@given(sequences(), st.lists(st.integers(0, LONGEST - 1), max_size=80))
def test_values_do_not_depend_on_what_was_asked_before(sequence: Sequence, steps: list[int]) -> None:
    fresh = pickle.loads(pickle.dumps(sequence))
    expected = [fresh.value(step) for step in range(LONGEST)]
    for step in steps:
        assert sequence.value(step) == expected[step]


@given(sequences())
def test_pieces_cover_all_steps_with_the_laws_that_give_the_values(sequence: Sequence) -> None:
    last, law = -1, None
    for start, following in sequence.pieces():
        assert following != law
        if law is not None:
            for step in range(last, min(start, LONGEST)):
                assert law.value(step) == sequence.value(step)
        if start >= LONGEST:
            break
        assert start > last
        last, law = start, following
    assert last >= 0


def test_pieces_of_endless_schedules_come_one_by_one() -> None:
    pieces = Cyclic(0.1, 0.2, 5).pieces()
    assert [next(pieces)[0] for _ in range(4)] == [0, 5, 10, 15]
    assert [start for start, _ in MultiStep(0.1, [5, 9], 1.0).pieces()] == [0]


def test_repr_shows_defaults_only_where_they_differ() -> None:
    assert repr(Exponential(0.1, 0.95)) == "Exponential(0.1, 0.95)"
    assert repr(Polynomial(0.1, 100, end=0.01)) == "Polynomial(0.1, 100, end=0.01)"
    assert repr(Warmup(5, Cosine(0.1, 115))) == "Warmup(5, Cosine(0.1, 115))"
    assert repr(Warmup(5, 0.1, 0.5)) == "Warmup(5, 0.1, start_factor=0.5)"
    assert repr(MultiStep(128, [40], 2)) == "MultiStep(128, [40], gamma=2)"
    chain = Exponential(0.1, 0.95).then("stop", at=30).then(0.1, at=40)
    assert repr(chain) == "Exponential(0.1, 0.95).then('stop', at=30).then(0.1, at=40)"
    assert repr(Table(range(100))) == "Table([0, 1, 2, 3, 4, 5, ..., 99])"


def test_whoever_inspects_a_family_finds_its_arguments() -> None:
    assert list(inspect.signature(Polynomial).parameters) == ["value", "steps", "power", "end"]


def test_kinds_of_values_are_kept_apart_but_one_number_is_one_number() -> None:
    assert Constant(True) != Constant(1)
    assert Constant(1) == Constant(1.0)
    assert Piecewise([True, 1], [3]) != Piecewise([1, 1], [3])
    assert Table([True]) != Table([1])
    assert first_difference(Table([True]), Table([1]), 1) == 0
    assert (
        first_difference(Constant(0).then(Table([True, 1]), at=1), Constant(0).then(Table([1, 1]), at=1), 3)
        == 1
    )


def test_sequences_never_change() -> None:
    sequence = Exponential(0.1, 0.95)
    with pytest.raises(AttributeError, match="never changes"):
        sequence.arguments = (0.2, 0.95)
    with pytest.raises(AttributeError, match="never changes"):
        del sequence.arguments


def test_json_names_the_family_and_writes_out_defaults() -> None:
    assert Polynomial(0.1, 100).to_json() == {
        "family": "Polynomial",
        "value": 0.1,
        "steps": 100,
        "power": 1.0,
        "end": 0.0,
    }
    assert Warmup(5, 0.1).to_json() == {"family": "Warmup", "steps": 5, "then": 0.1, "start_factor": None}
    assert from_json(0.1) == Constant(0.1)


def test_equal_json_gives_one_object() -> None:
    stored = Warmup(5, Cosine(0.1, 115)).to_json()
    assert from_json(stored) is from_json(json.loads(json.dumps(stored)))
    assert from_json(1) is from_json(1)
    assert [type(from_json(value).value(0)) for value in (1, 1.0, True, "1")] == [int, int, bool, str]


def test_json_that_fits_no_family_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no family 'Expo' is known"):
        from_json({"family": "Expo", "value": 0.1})
    with pytest.raises(InvalidInput, match=r"Constant has \['gamma'\]"):
        from_json({"family": "Constant", "gamma": 0.1})
    with pytest.raises(InvalidInput, match="Exponential: gamma is -1"):
        from_json({"family": "Exponential", "value": 0.1, "gamma": -1})
    with pytest.raises(InvalidInput, match="gamma"):
        from_json({"family": "Exponential", "value": 0.1})


def test_a_chain_is_flat_and_drops_what_never_comes_into_force() -> None:
    inner = Constant(2).then(3, at=10).then(4, at=20)
    assert Constant(1).then(inner, at=5) == Then([1, 2, 3, 4], [5, 15, 25])
    assert inner.then(9, at=10) == Then([2, 9], [10])
    assert inner.then(9, at=15) == Then([2, 3, 9], [10, 15])
    assert inner.then(9, at=0) == Constant(9)


def test_a_function_is_stored_by_reference_and_refused_once_its_source_has_changed() -> None:
    stored = Function(halved_at_ten).to_json()
    assert stored["fn"] == "sequences.strategies:halved_at_ten"
    with pytest.raises(InvalidInput, match="source has changed"):
        from_json({**stored, **dict.fromkeys(stored.keys() & {"source", "code"}, "0123456789abcdef")})
    with pytest.raises(InvalidInput, match="cannot be imported"):
        from_json({**stored, "fn": "sequences.strategies:gone"})


def test_a_function_that_cannot_be_imported_is_stored_by_its_values_or_not_at_all() -> None:
    with pytest.raises(InvalidInput, match="pass steps="):
        Function(lambda step: 0.1 / (1 + step)).to_json()
    tabulated = Function(lambda step: 0.1 / (1 + step), steps=3)
    assert tabulated.to_json() == {"family": "Table", "values": [0.1, 0.05, 0.0333333333333]}


def test_functions_are_equal_only_if_they_are_the_same_function() -> None:
    assert Function(halved_at_ten) == Function(halved_at_ten)
    assert Function(lambda step: 0.1) != Function(lambda step: 0.1)
