"""When a worker counts as hung."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from hippotune.executors.local.hang_timeout import HangTimeout
from hippotune.protocol.events import Progressed

seconds = st.floats(0.001, 1e5)


def having_seen(hang_timeout: HangTimeout, paces: list[float]) -> HangTimeout:
    for pace in paces:
        hang_timeout.observe(Progressed(lease=0, step=10, steps=10, seconds=10 * pace))
    return hang_timeout


def test_there_is_no_limit_before_the_first_step_is_finished() -> None:
    assert HangTimeout().limit(closing=False) == math.inf


def test_a_worker_that_only_has_saves_to_finish_is_not_waited_for_for_ever() -> None:
    assert HangTimeout().limit(closing=True) == 600


def test_slow_steps_are_waited_for_longer() -> None:
    assert having_seen(HangTimeout(), [20.0, 30.0, 1000.0]).limit(closing=False) == 50 * 30


def test_quick_steps_are_no_reason_for_haste() -> None:
    assert having_seen(HangTimeout(), [0.001] * 3).limit(closing=False) == 600


@given(limit=seconds | st.just(math.inf), paces=st.lists(seconds))
def test_what_is_given_holds_whatever_is_seen(limit: float, paces: list[float]) -> None:
    assert having_seen(HangTimeout(limit), paces).limit(closing=False) == limit


@given(paces=st.lists(seconds))
def test_the_limit_is_never_below_the_shortest(paces: list[float]) -> None:
    hang_timeout = having_seen(HangTimeout(), paces)
    assert hang_timeout.limit(closing=False) >= hang_timeout.shortest
