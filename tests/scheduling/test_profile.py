"""What is learned while training: paces, speeds by width, and what a restart costs."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.plan.facts import MeasuredSteps
from hippotune.plan.node import Node
from hippotune.plan.plan import Plan
from hippotune.scheduling.profile import Profile
from hippotune.sequences import Config, MultiStep

ONE, TWO, FOUR, HALF = Fraction(1), Fraction(2), Fraction(4), Fraction(1, 2)
RESNET = {1: 1, 2: 1.870, 4: 3.421, 8: 5.598}


def node(lr: float = 0.1) -> Node:
    return Plan().place(Config({"lr": lr}), 100)[0]


def test_before_anything_is_trained_speeds_are_guessed() -> None:
    profile = Profile()
    assert profile.usual is None
    assert profile.speed(ONE) == 1
    assert profile.speed(HALF) == 0.5
    assert 1.8 < profile.speed(TWO) < 2
    assert profile.speed(TWO) < profile.speed(FOUR) < 4


def test_what_the_user_has_measured_is_taken_as_it_is() -> None:
    profile = Profile(RESNET)
    assert [profile.speed(Fraction(width)) for width in RESNET] == list(RESNET.values())
    assert RESNET[4] < profile.speed(Fraction(6)) < RESNET[8]
    assert profile.speed(Fraction(16)) > RESNET[8]
    assert Profile({1 / 3: 0.5}).speed(Fraction(1, 3)) == 0.5


def test_the_speed_of_a_width_is_learned_from_nodes_that_one_slot_has_trained() -> None:
    profile, trained = Profile(), node()
    profile.observe(trained, 50, 50.0)
    for _ in range(20):
        profile.observe(trained, 50, 50 / 1.4, TWO)
    assert profile.speed(TWO) == pytest.approx(1.4, rel=1e-3)
    assert profile.usual == pytest.approx(1.0)  # wide steps are not mistaken for usual ones


def test_a_speed_that_was_given_is_corrected_by_what_is_seen() -> None:
    profile, trained = Profile({2: 1.9}), node()
    profile.observe(trained, 100, 100.0)
    profile.observe(trained, 400, 400 / 1.1, TWO)
    assert profile.speed(TWO) == pytest.approx(1.1, rel=1e-2)


def test_widths_that_nobody_knows_are_judged_by_the_nearest_that_somebody_does() -> None:
    profile, trained = Profile(), node()
    before = profile.speed(FOUR)
    profile.observe(trained, 100, 100.0)
    profile.observe(trained, 1000, 1000 / (profile.speed(TWO) / 2), TWO)
    assert profile.speed(FOUR) == pytest.approx(before / 2, rel=1e-2)
    assert profile.speed(HALF) == 0.5


def test_the_first_steps_may_be_wide_ones() -> None:
    profile, trained = Profile({2: 1.6}), node()
    profile.observe(trained, 10, 10.0, TWO)
    assert profile.usual == pytest.approx(1.6)
    assert profile.speed(TWO) == 1.6
    assert 5 * (profile.usual or 0.0) == pytest.approx(8.0)


def test_a_step_takes_the_same_share_of_a_slot_however_it_was_measured() -> None:
    profile, trained = Profile(), node()
    profile.observe(trained, 10, 20.0, HALF)
    assert profile.usual == pytest.approx(1.0)


def test_steps_that_were_not_trained_say_nothing() -> None:
    profile = Profile()
    profile.observe(node(), 0, 5.0)
    profile.observe(node(), 0, 5.0, TWO)
    assert profile.usual is None


def test_a_restart_costs_what_starting_took_and_half_a_step() -> None:
    profile = Profile()
    assert profile.restart == 1.0  # until something is known
    profile.observe(node(), 10, 20.0)
    profile.observe_start(3.0)
    profile.observe_start(5.0)
    assert profile.restart == pytest.approx(0.5 + 4.8 / 2.0)


def test_what_starting_takes_is_the_90th_percentile_of_all_starts() -> None:
    profile = Profile()
    assert profile.startup == 0.0
    for seconds in random.Random(0).sample(range(11), 11):
        profile.observe_start(float(seconds))
    assert profile.startup == 9.0


def test_a_slow_node_is_no_slow_width() -> None:
    profile, quick, slow = Profile(), node(0.1), node(0.2)
    profile.observe(quick, 100, 100.0)
    profile.observe(slow, 100, 300.0)
    profile.observe(slow, 100, 300 / 1.7, TWO)
    pace = slow.pace * (profile.usual or 0)
    assert pace == pytest.approx(3.0, rel=0.25)  # as exact as paces are
    assert profile.speed(TWO) == pytest.approx(1.7 * pace / 3.0, rel=0.02)


def test_what_was_measured_before_is_known_at_once() -> None:
    plan = Plan()
    slow, quick = (plan.place(Config({"lr": lr}), 100)[0] for lr in (0.1, 0.2))
    branch = plan.place(Config({"lr": MultiStep(0.1, [50], 0.1)}), 100)[0]
    first = Profile()
    first.recall(
        plan.nodes,
        [
            MeasuredSteps(slow.id, 1.0, 90, 270.0),
            MeasuredSteps(quick.id, 1.0, 90, 90.0),
            MeasuredSteps(slow.id, 2.0, 10, 20.0),
        ],
    )
    assert first.usual == pytest.approx(2.0, rel=0.25)
    assert slow.pace / quick.pace == pytest.approx(3.0, rel=0.25)
    assert branch.pace == slow.pace  # which nobody has measured, and which begins as its parent does
    assert first.speed(TWO) == pytest.approx(1.5, rel=0.3)


def test_what_is_measured_now_soon_counts_for_more_than_any_past() -> None:
    trained = node()
    profile = Profile()
    profile.recall([trained], [MeasuredSteps(0, 1.0, 1_000_000, 9_000_000.0)])
    assert profile.usual == pytest.approx(9.0)
    profile.observe(trained, 1000, 1000.0)
    assert profile.usual == pytest.approx(1.0, rel=0.05)


def test_without_a_past_nothing_is_known() -> None:
    profile, trained = Profile(), node()
    profile.recall([trained], [])
    assert profile.usual is None
    assert trained.pace == 1.0


@given(
    st.lists(
        st.tuples(st.integers(1, 50), st.floats(0.01, 10.0), st.sampled_from([HALF, ONE, TWO, FOUR])),
        max_size=30,
    ),
    st.integers(1, 16),
)
def test_speeds_are_always_numbers_above_0(seen: list[tuple[int, float, Fraction]], width: int) -> None:
    profile, trained = Profile(), node()
    for steps, each, at in seen:
        profile.observe(trained, steps, steps * each, at)
    assert profile.speed(ONE) == 1
    assert 0 < profile.speed(Fraction(width)) < float("inf")
    assert profile.restart > 0


def test_steps_that_the_clock_does_not_see_leave_the_pace_as_it_is() -> None:
    profile, usual, unseen = Profile(), node(), node()
    profile.observe(usual, 10, 10.0)
    for _ in range(2):
        assert not profile.observe(unseen, 5, 0.0)
    assert unseen.pace == 1
    assert profile.observe(unseen, 10, 100.0)
