"""Width policies: what Fluid gives to what runs and what waits, and what it does not take."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hippotune as hippo
from hippotune import Fluid
from hippotune.errors import InvalidInput
from hippotune.scheduling import Contender
from hippotune.scheduling.policy import WidthPolicy
from hippotune.scheduling.width import Ladder
from scheduling.shares import linear, needed

WAITS = Fraction(0)


def waiting(*times: float, steps: Ladder) -> list[Contender]:
    return [Contender(time, WAITS, steps) for time in times]


def test_what_is_not_listed_takes_its_share_too() -> None:
    policy = Fluid()
    work = waiting(10, 10, steps=policy.steps(4))
    assert policy.widths(work, 4, linear) == [2, 2]
    # Ten times as much is to come; but what it will need is not here yet, and nothing is idle for it.
    assert policy.widths(work, 4, linear, beyond=200) == [2, 2]
    uneven = waiting(30, 10, steps=policy.steps(4))
    assert policy.widths(uneven, 4, linear) == [3, 1]


def test_a_contender_stays_on_its_own_ladder() -> None:
    narrow = Contender(100, WAITS, (Fraction(1),))
    wide = Contender(10, WAITS, tuple(map(Fraction, (1, 2, 4))))
    assert Fluid().widths([narrow, wide], 8, linear) == [1, 4]


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 4)), max_size=8),
    st.integers(1, 12),
    st.floats(0, 1e6),
)
def test_no_more_than_there_is_whatever_runs_already(
    work: list[tuple[float, int]], slots: int, beyond: float
) -> None:
    policy = Fluid(packing=2, max_width=4)
    steps = policy.steps(slots)
    contenders = [Contender(time, Fraction(width), steps) for time, width in work]
    assert needed(policy.widths(contenders, slots, linear, beyond)) <= slots


def test_widths_end_where_the_slots_do() -> None:
    assert Fluid().steps(3) == (1, 2, 3)
    assert Fluid(max_width=2).steps(8) == (1, 2)
    assert Fluid(packing=3, max_width=4).steps(2) == (Fraction(1, 3), 1, 2)
    assert Fluid(max_width=4).steps(0) == (1,)


def test_a_policy_says_whether_it_changes_what_runs() -> None:
    assert Fluid().resizes
    assert not Fluid(dynamic=False).resizes
    assert repr(Fluid(packing=2, max_width=4)) == "Fluid(packing=2, max_width=4)"


def test_a_policy_of_ones_own_is_one_method() -> None:
    class Alone(WidthPolicy):
        """Gives all slots to whatever is longest."""

        def widths(self, work: Any, slots: int, speed: Any, beyond: float = 0.0) -> list[Fraction]:
            longest = max(range(len(work)), key=lambda each: work[each].time)
            return [each.ladder[-1] if place == longest else WAITS for place, each in enumerate(work)]

    policy = Alone(max_width=3)
    assert policy.widths(waiting(1, 5, 2, steps=policy.steps(4)), 4, linear) == [0, 3, 0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"packing": 0}, "packing is 0; expected a whole number of at least 1"),
        ({"packing": 0.5}, "packing is 0.5"),
        ({"packing": True}, "packing is True"),
        ({"max_width": 0}, "max_width is 0; expected a whole number of at least 1"),
        ({"max_width": "4"}, "max_width is '4'"),
        ({"scaling": {2: 0}}, "expected speed-ups by width, such as"),
        ({"scaling": {0: 1.0}}, "expected speed-ups by width"),
        ({"scaling": {"2": 1.8}}, "expected speed-ups by width"),
        ({"scaling": {2: "fast"}}, "expected speed-ups by width"),
        ({"scaling": {2: True}}, "expected speed-ups by width"),
        ({"scaling": {2: float("nan")}}, "expected speed-ups by width"),
        ({"scaling": {2: float("inf")}}, "expected speed-ups by width"),
        ({"scaling": [1, 1.87]}, "expected speed-ups by width"),
        ({"scaling": {1: 2.0}}, "width 1 is what others are compared with"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says.replace("(", r"\(")):
        Fluid(**arguments)


def test_a_study_takes_nothing_else_for_a_policy(tmp_path: Any) -> None:
    class Nothing(hippo.Trainer):
        def setup(self, hp: Any) -> None: ...
        def train(self) -> None: ...
        def evaluate(self) -> Any: ...

    width: Any = 4
    with pytest.raises(
        InvalidInput, match=r"width is 4; expected a policy, such as hippo.Fluid\(max_width=4\)"
    ):
        hippo.Study("wide", Nothing, home=tmp_path, width=width)
