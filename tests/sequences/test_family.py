"""Families: what a call of a sequence's class gives while some arguments are not chosen yet."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import pytest

from hippotune.errors import InvalidInput
from hippotune.sequences import (
    Config,
    Cosine,
    Distribution,
    Exponential,
    Family,
    MultiStep,
    Piecewise,
    Sequence,
    Warmup,
    as_sequence,
)


@dataclass(frozen=True)
class Between(Distribution):
    low: float
    high: float


RATE = Between(0.001, 0.1)
LENGTH = Between(1, 5)


def family(made: object) -> Family:
    assert isinstance(made, Family)
    return made


def test_a_call_without_distributions_makes_a_sequence() -> None:
    assert isinstance(Exponential(0.1, 0.95), Sequence)


def test_a_call_with_a_distribution_makes_a_family_that_builds_sequences() -> None:
    made = family(Exponential(RATE, gamma=0.95))
    assert made.parameters() == (("value", RATE),)
    assert made.build({"value": 0.1}) == Exponential(0.1, 0.95)


def test_families_nest_and_name_what_is_open_by_its_path() -> None:
    made = family(Warmup(LENGTH, Cosine(RATE, 100)))
    assert made.parameters() == (("steps", LENGTH), ("then.value", RATE))
    assert made.build({"steps": 5, "then.value": 0.1}) == Warmup(5, Cosine(0.1, 100))


def test_distributions_are_found_in_lists_too() -> None:
    made = family(MultiStep(0.1, [LENGTH, 60], RATE))
    assert made.parameters() == (("milestones.0", LENGTH), ("gamma", RATE))
    assert made.build({"milestones.0": 30, "gamma": 0.5}) == MultiStep(0.1, [30, 60], 0.5)
    assert family(Piecewise([0.1, RATE], [30])).build({"values.1": 0.01}) == Piecewise([0.1, 0.01], [30])


def test_families_can_be_followed_and_follow() -> None:
    made = family(Exponential(RATE, 0.95)).then(Cosine(RATE, 10), at=LENGTH)
    assert [path for path, _ in made.parameters()] == [
        "sequences.0.value",
        "sequences.1.value",
        "milestones.0",
    ]
    built = made.build({"sequences.0.value": 0.1, "sequences.1.value": 0.2, "milestones.0": 7})
    assert built == Exponential(0.1, 0.95).then(Cosine(0.2, 10), at=7)
    assert family(Exponential(0.1, 0.95).then(0.01, at=LENGTH)).build({"milestones.0": 3}) == Exponential(
        0.1, 0.95
    ).then(0.01, at=3)


def test_a_distribution_may_stand_for_a_whole_sequence() -> None:
    made = family(Warmup(5, RATE))
    assert made.build({"then": Cosine(0.1, 10)}) == Warmup(5, Cosine(0.1, 10))


def test_repr_and_pickle_bring_back_an_equal_family() -> None:
    made = family(Warmup(LENGTH, MultiStep(RATE, [5, LENGTH])))
    for again in (pickle.loads(pickle.dumps(made)), eval(repr(made))):
        assert again == made
        assert hash(again) == hash(made)


def test_values_for_other_paths_than_the_open_ones_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"given for \['gamma'\]; .* needs them for \['value'\]"):
        family(Exponential(RATE, 0.95)).build({"gamma": 0.1})


def test_what_is_built_is_checked_like_any_sequence() -> None:
    with pytest.raises(InvalidInput, match="steps is -3"):
        family(Warmup(LENGTH, 0.1)).build({"steps": -3})
    with pytest.raises(TypeError, match="gamma"):
        Exponential(RATE)  # type: ignore[call-arg]


def test_a_family_is_no_sequence_and_never_changes() -> None:
    made = family(Exponential(RATE, 0.95))
    with pytest.raises(InvalidInput, match="sample one from a space first"):
        as_sequence(made)
    with pytest.raises(InvalidInput, match=r"hyper-parameter 'lr'.*sample one"):
        Config({"lr": made})  # type: ignore[dict-item]
    with pytest.raises(AttributeError, match="never changes"):
        made.kind = Cosine
