"""When a worker counts as hung."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from hippotune.executors.patience import Patience
from hippotune.protocol.events import Progressed

seconds = st.floats(0.001, 1e5)


def having_seen(patience: Patience, paces: list[float]) -> Patience:
    for pace in paces:
        patience.observe(Progressed(lease=0, step=10, steps=10, seconds=10 * pace))
    return patience


def test_nobody_is_impatient_before_the_first_step_is_finished() -> None:
    assert Patience().limit(closing=False) == math.inf


def test_a_worker_that_only_has_saves_to_finish_is_not_waited_for_for_ever() -> None:
    assert Patience().limit(closing=True) == 600


def test_slow_steps_are_waited_for_longer() -> None:
    assert having_seen(Patience(), [20.0, 30.0, 1000.0]).limit(closing=False) == 50 * 30


def test_quick_steps_are_no_reason_for_haste() -> None:
    assert having_seen(Patience(), [0.001] * 3).limit(closing=False) == 600


@given(told=seconds | st.just(math.inf), paces=st.lists(seconds))
def test_what_is_told_holds_whatever_is_seen(told: float, paces: list[float]) -> None:
    assert having_seen(Patience(told), paces).limit(closing=False) == told


@given(paces=st.lists(seconds))
def test_the_limit_is_never_below_the_shortest(paces: list[float]) -> None:
    patience = having_seen(Patience(), paces)
    assert patience.limit(closing=False) >= patience.shortest
