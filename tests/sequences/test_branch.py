"""Branches of a config: the same until a step, changed from there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.errors import InvalidInput
from hippotune.sequences import WSD, Config, Constant, Cosine, Linear, Sequence, Warmup
from hippotune.sequences.mixtures import written

TRUNK = Config({"lr": Warmup(10, 0.1), "mix": "web", "wd": 0.01})
SEQUENCES: list[Sequence] = [Constant(0.1), Linear(0.1, 0.0, 7), Cosine(0.1, 5), WSD(0.1, 20, 3, 0.3)]


@given(at=st.integers(0, 30), after=st.sampled_from(SEQUENCES), absolute=st.booleans())
def test_a_branch_is_the_trunk_before_it_and_the_change_after_it(
    at: int, after: Sequence, absolute: bool
) -> None:
    branch = TRUNK.branch(at, absolute=absolute, lr=after)
    for step in range(50):
        own = step if absolute else step - at
        expected = TRUNK["lr"].value(step) if step < at else after.value(own)
        assert branch["lr"].value(step) == expected
        assert branch.values(step)["wd"] == 0.01
    assert Config.from_json(branch.to_json()) == branch


def test_an_absolute_branch_equals_the_schedule_that_it_follows() -> None:
    whole = WSD(0.1, 40, 10, 10)
    assert (
        TRUNK.branch(30, absolute=True, lr=whole).first_difference(Config({**TRUNK, "lr": whole}), 1_000)
        is None
    )


def test_a_plain_value_is_the_same_wherever_it_is_counted_from() -> None:
    assert TRUNK.branch(30, absolute=True, mix="math") == TRUNK.branch(30, mix="math")


def test_a_name_that_the_trunk_does_not_have_needs_a_default() -> None:
    branch = TRUNK.branch(20, dropout=0.1).branch(30, dropout=0.2)
    with pytest.raises(InvalidInput, match=r"'dropout' has no value before step 20.*Study\(defaults="):
        branch.completed({})
    with pytest.raises(InvalidInput, match="no value at step 3"):
        branch.values(3)
    full = branch.completed({"dropout": Constant(0.0)})
    assert [full["dropout"].value(step) for step in (0, 19, 20, 29, 30)] == [0.0, 0.0, 0.1, 0.1, 0.2]
    assert TRUNK.completed({"dropout": Constant(0.0)}).first_difference(full, 100) == 20
    assert TRUNK.completed({"wd": Constant(5.0)}) is TRUNK


def test_mixtures_that_mean_the_same_are_one_value() -> None:
    mixtures = [{"web": 7, "math": np.int64(3)}, {"math": 0.3, "web": np.float64(0.7), "the code": 0}]
    configs = {Config({"mix": mixture}) for mixture in mixtures}
    assert len(configs) == 1
    value = configs.pop()["mix"].value(5)
    assert written(value) == {"math": 0.3, "web": 0.7}
    assert repr(Constant({"web": 1}).then({"a": 1}, at=5)) == "Constant({'web': 1}).then({'a': 1}, at=5)"
    assert written('{"math": 1, "web": 1}') == '{"math": 1, "web": 1}'  # a text that is no mixture's


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TRUNK.branch(-1, lr=0.1), "at is -1; expected a whole number of at least 0"),
        (lambda: TRUNK.branch(5), "nothing changes at step 5"),
        (
            lambda: TRUNK.branch(5, mix={"web": -1, "math": 2}),
            "weight of 'web' is -1; expected a finite number at least 0",
        ),
        (lambda: TRUNK.branch(5, mix={"web": 0, "math": 0}), "expected at least one weight above 0"),
        (lambda: TRUNK.branch(5, mix={"web": "much"}), "weight of 'web' is 'much'; expected a finite number"),
        (lambda: TRUNK.branch(5, mix={"": 1}), "names the source ''; expected text that is not empty"),
    ],
)
def test_what_cannot_be_meant_is_refused(make: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()  # type: ignore[operator]
