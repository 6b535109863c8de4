"""Sequences looked at several times a step: values between steps, and sharing that goes by all of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.sequences import (
    WSD,
    Config,
    Constant,
    Cosine,
    Cyclic,
    Decay,
    Exponential,
    InverseSqrt,
    Linear,
    MultiStep,
    Polynomial,
    Power,
    Sequence,
    Table,
    Warmup,
)
from hippotune.sequences.combined import Substeps

CURVES = {
    "linear": (Linear(0.1, 0.0, 10), lambda t: 0.1 * (1 - t / 10)),
    "cosine": (Cosine(0.1, 10), lambda t: 0.05 * (1 + math.cos(math.pi * t / 10))),
    "exponential": (Exponential(0.1, 0.5), lambda t: 0.1 * 0.5**t),
    "polynomial": (Polynomial(0.1, 10, 2.0), lambda t: 0.1 * (1 - t / 10) ** 2),
    "inverse sqrt": (InverseSqrt(0.1, 2), lambda t: 0.1 * math.sqrt(2 / (t + 2))),
    "1-sqrt": (Decay(0.1, 10), lambda t: 0.1 * (1 - math.sqrt(t / 10))),
    "exp": (Decay(0.1, 10, "exp", 0.001), lambda t: 0.1 * 0.01 ** (t / 10)),
    "inverse": (Decay(0.1, 10, "inverse", 0.01), lambda t: 1 / (t / 10 / 0.01 + (1 - t / 10) / 0.1)),
    "damped": (Cyclic(0.0, 1.0, 10, mode="exp_range", gamma=0.9), lambda t: t / 10 * 0.9**t),
    "power": (Power(1e9, 1, 1000), lambda t: 4.0 * (1000 * t) ** -0.51 if t else 1e9),
    "warm-up": (Warmup(10, 0.1), lambda t: 0.1 / 11 * (1 + t)),
}


@pytest.mark.parametrize("name", CURVES)
@given(step=st.integers(1, 9), parts=st.integers(2, 7))
def test_values_between_steps_lie_on_the_curve(name: str, step: int, parts: int) -> None:
    sequence, curve = CURVES[name]
    values: Any = Substeps(sequence, parts).value(step)
    expected = [curve(step + part / parts) for part in range(parts)]
    assert values == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("sequence", [Constant("adam"), MultiStep(0.1, [3]), Table([0.1, 0.2, 0.3, 0.4])])
def test_what_does_not_change_within_a_step_has_one_value(sequence: Sequence) -> None:
    assert [Substeps(sequence, 4).value(step) for step in range(4)] == [
        sequence.value(step) for step in range(4)
    ]


def test_trials_share_a_step_only_if_they_agree_in_all_parts_of_it() -> None:
    one = Config({"lr": Warmup(5, Constant(0.1)).then(Linear(0.1, 0.0, 10), at=8)})
    other = Config({"lr": WSD(0.1, 18, 5, 10, "1-sqrt")})
    assert one.first_difference(other, 30) == 9  # at step 8 both are at the peak
    assert one.refined(4).first_difference(other.refined(4), 30) == 8
    assert one.refined(1) is one
    assert Config.from_json(one.refined(4).to_json()) == one.refined(4)
