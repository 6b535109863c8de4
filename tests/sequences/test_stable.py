"""Warm-up, stable, decay: the published formulas, what they merge with, and what they share."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.errors import InvalidInput
from hippotune.plan.plan import Plan, unique_steps
from hippotune.sequences import (
    WSD,
    WSDS,
    Config,
    Constant,
    Cosine,
    Decay,
    Exponential,
    Linear,
    Power,
    Sequence,
    Warmup,
    first_difference,
    from_json,
)

HORIZONS = [1_000, 2_000, 4_000, 8_000, 16_000]
SHAPES = ["1-sqrt", "linear", "cosine", "exp", "inverse"]


def published(shape: str, peak: float, end: float, u: float) -> float:
    """The decays as their papers write them."""
    return {
        "1-sqrt": lambda: end + (peak - end) * (1 - math.sqrt(u)),
        "linear": lambda: end + (peak - end) * (1 - u),
        "cosine": lambda: end + (peak - end) * (1 + math.cos(math.pi * u)) / 2,
        "exp": lambda: peak * (end / peak) ** u,
        "inverse": lambda: 1 / (u / end + (1 - u) / peak),
    }[shape]()


@given(
    shape=st.sampled_from(SHAPES),
    peak=st.floats(1e-5, 1.0),
    part=st.floats(1e-3, 1.0),
    warmup=st.integers(0, 20),
    stable=st.integers(0, 20),
    decay=st.integers(1, 30),
)
def test_every_step_is_as_published(
    shape: str, peak: float, part: float, warmup: int, stable: int, decay: int
) -> None:
    end = peak * part
    horizon = warmup + stable + decay
    schedule = WSD(peak, horizon, warmup, decay, shape, end)
    for step in range(horizon + 5):
        if step < warmup:
            expected = peak * (step + 1) / (warmup + 1)
        elif step < horizon - decay:
            expected = peak
        else:
            u = min((step - (horizon - decay)) / decay, 1.0)
            expected = published(shape, peak, end, u)
        assert schedule.value(step) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_decay_begins_at_the_value_of_the_trunk_and_ends_at_its_end(shape: str) -> None:
    decay = Decay(0.1, 10, shape, 0.01)
    assert (decay.value(0), decay.value(10), decay.value(1_000)) == (0.1, 0.01, 0.01)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (WSD(0.1, 100, decay=20, shape="linear"), Constant(0.1).then(Linear(0.1, 0.0, 20), at=80)),
        (WSD(0.1, 100, 10, 0.2), Warmup(10, 0.1).then(Decay(0.1, 20), at=80)),
        (Decay(0.1, 10, "cosine", 0.01).then(0.01, at=10), Cosine(0.1, 10, 0.01).then(0.01, at=10)),
        (Decay(0.8, 3, "exp", 0.1).then(0.1, at=3), Exponential(0.8, 0.5).then(0.1, at=3)),
        (WSDS(0.1, [50], 0.01, warmup=5), WSD(0.1, 50, 5, 0.1, "inverse", 0.01).then(0.1, at=50)),
    ],
)
def test_schedules_merge_with_what_equals_them(one: Sequence, other: Sequence) -> None:
    assert first_difference(one, other, 10_000) is None


def test_decays_of_wsd_s_return_to_the_peak() -> None:
    schedule = WSDS(0.1, [100, 300], end=0.01, decay=0.1)
    assert [schedule.value(step) for step in (89, 90, 100, 269, 270, 300, 10_000)] == [0.1] * 7
    assert schedule.value(99) == pytest.approx(published("inverse", 0.1, 0.01, 0.9))
    assert schedule.value(285) == pytest.approx(published("inverse", 0.1, 0.01, 0.5))


@given(
    most=st.floats(1e-4, 1.0),
    batch=st.integers(1, 4096),
    tokens=st.integers(1, 10**7),
    b=st.floats(-1.5, -0.1),
)
def test_the_power_scheduler_is_as_published(most: float, batch: int, tokens: int, b: float) -> None:
    schedule = Power(most, batch, tokens, a=4.6, b=b)
    assert schedule.value(0) == pytest.approx(most, rel=1e-11)
    for step in (1, 2, 3, 10, 1_000, 10**6):
        expected = min(most, batch * 4.6 * (step * tokens) ** b)
        assert schedule.value(step) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("warmup", [3, 400])  # before the law falls below the maximum, and after
def test_the_tokens_of_a_warm_up_count_for_the_power_scheduler(warmup: int) -> None:
    plain, warmed = Power(0.02, 512, 1e9), Power(0.02, 512, 1e9, warmup=warmup)
    assert plain.value(3) == 0.02 > plain.value(400)
    for step in range(warmup):
        expected = float(plain.value(warmup)) * (step + 1) / (warmup + 1)
        assert warmed.value(step) == pytest.approx(expected, rel=1e-9)
    assert [warmed.value(step) for step in (warmup, 1_000)] == [plain.value(step) for step in (warmup, 1_000)]


@pytest.mark.parametrize(
    "sequence",
    [
        Power(0.02, 512, 1e6, warmup=7),
        WSD(0.1, 100, 10, 0.2, "exp", 0.01),
        WSDS(0.1, [50, 100], 0.01),
        Power(0.02, 512, 1e6),
        Decay(1, 5),
    ],
)
def test_they_are_values(sequence: Sequence) -> None:
    assert from_json(sequence.to_json()) == sequence == pickle.loads(pickle.dumps(sequence))


def rate(asks: Iterable[tuple[Sequence, int]]) -> float:
    plan, listed = Plan(), list(asks)
    placed = [(plan.place(Config({"lr": lr}), steps)[0], steps) for lr, steps in listed]
    return sum(steps for _, steps in listed) / unique_steps(placed)


def test_horizons_share_with_wsd_what_they_cannot_with_cosine() -> None:
    cosine = rate((Warmup(100, Cosine(0.1, horizon - 100)), horizon) for horizon in HORIZONS)
    wsd = rate((WSD(0.1, horizon, 100, 0.2), horizon) for horizon in HORIZONS)
    every = rate(
        (WSD(peak, horizon, 100, decay, shape), horizon)
        for peak in (0.1, 0.2, 0.3, 0.4)
        for horizon in HORIZONS
        for decay in (0.1, 0.2)
        for shape in ("1-sqrt", "linear")
    )
    assert [round(found, 2) for found in (cosine, wsd, every)] == [1.01, 1.63, 3.76]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WSD(0.1, 100, warmup=50, decay=0.7), "longer than steps, which is 100"),
        (lambda: WSD(0.1, 100, decay=120), "a decay of 120 are longer than steps"),
        (lambda: WSD(0.1, 100, decay=1.5), "decay is 1.5; expected a part below 1, or a whole number"),
        (lambda: WSD(0.1, 100, decay=0), "decay is 0; expected a finite number above 0"),
        (lambda: WSD(0.1, 100, shape="wave"), "shape is 'wave'; expected one of '1-sqrt', 'linear'"),
        (lambda: WSD(0.1, 100, shape="exp"), "end is 0.0; expected a finite number above 0"),
        (lambda: WSDS(0.1, [100, 105], 0.01), "would begin before step 100"),
        (lambda: WSDS(0.1, [], 0.01), "ends is empty"),
        (lambda: Power(0.1, 1, 1, b=0.5), "b is 0.5; expected a number below 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(make: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()  # type: ignore[operator]
