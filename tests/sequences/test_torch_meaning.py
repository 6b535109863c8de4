"""Every family that torch has a scheduler for has its values, at every step, also past the natural end."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from hippotune.sequences import (
    Cosine,
    CosineRestarts,
    Cyclic,
    Exponential,
    InverseSqrt,
    Linear,
    MultiStep,
    OneCycle,
    Polynomial,
    Sequence,
    Step,
    Warmup,
)
from sequences.schedulers import run

RATES = st.floats(1e-4, 1.0)
SMALL = st.floats(0.0, 0.01)
LENGTHS = st.integers(1, 25)


def assert_values(sequence: Sequence, expected: list[float]) -> None:
    assert [sequence.value(step) for step in range(len(expected))] == pytest.approx(
        expected, abs=1e-9, rel=1e-9
    )


@given(RATES, LENGTHS, st.floats(0.0, 1.2))
def test_step(lr: float, size: int, gamma: float) -> None:
    assert_values(Step(lr, size, gamma), run(lambda o: lr_scheduler.StepLR(o, size, gamma), lr, 4 * size))


@given(RATES, st.lists(st.integers(0, 40), max_size=4), st.floats(0.0, 1.2))
def test_multi_step_with_repeated_milestones(lr: float, milestones: list[int], gamma: float) -> None:
    milestones.sort()
    expected = run(lambda o: lr_scheduler.MultiStepLR(o, milestones, gamma), lr, 60)
    assert_values(MultiStep(lr, milestones, gamma), expected)


@given(RATES, st.floats(0.0, 1.1))
def test_exponential(lr: float, gamma: float) -> None:
    assert_values(Exponential(lr, gamma), run(lambda o: lr_scheduler.ExponentialLR(o, gamma), lr, 60))


@given(RATES, st.floats(0.01, 1.0), st.floats(0.0, 1.0), LENGTHS)
def test_linear(lr: float, first: float, last: float, steps: int) -> None:
    expected = run(lambda o: lr_scheduler.LinearLR(o, first, last, steps), lr, 3 * steps)
    assert_values(Linear(lr * first, lr * last, steps), expected)


@given(RATES, LENGTHS, st.floats(0.2, 3.0))
def test_polynomial(lr: float, steps: int, power: float) -> None:
    expected = run(lambda o: lr_scheduler.PolynomialLR(o, steps, power), lr, 3 * steps)
    assert_values(Polynomial(lr, steps, power), expected)


@given(RATES, LENGTHS, SMALL)
def test_cosine_is_periodic_past_its_end(lr: float, steps: int, end: float) -> None:
    expected = run(lambda o: lr_scheduler.CosineAnnealingLR(o, steps, end), lr, 5 * steps)
    assert_values(Cosine(lr, steps, end), expected)


@given(RATES, LENGTHS, st.integers(1, 3), SMALL)
def test_cosine_restarts(lr: float, period: int, mult: int, end: float) -> None:
    expected = run(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, period, mult, end), lr, 6 * period)
    assert_values(CosineRestarts(lr, period, mult, end), expected)


@given(
    SMALL,
    RATES,
    LENGTHS,
    st.none() | LENGTHS,
    st.sampled_from(["triangular", "triangular2", "exp_range"]),
    st.floats(0.8, 1.0),
)
def test_cyclic(low: float, high: float, up: int, down: int | None, mode: str, gamma: float) -> None:
    expected = run(lambda o: lr_scheduler.CyclicLR(o, low, high, up, down, mode, gamma), 0.1, 5 * up)  # type: ignore[arg-type]
    assert_values(Cyclic(low, high, up, down, mode, gamma), expected)


@given(
    RATES,
    st.integers(2, 60),
    st.floats(0.0, 1.0),
    st.sampled_from(["cos", "linear"]),
    st.floats(1.0, 50.0),
    st.floats(1.0, 1e4),
    st.booleans(),
)
def test_one_cycle_up_to_its_end(
    peak: float, steps: int, warm: float, anneal: str, div: float, final_div: float, three_phase: bool
) -> None:
    if math.isclose(warm * steps, 1):
        return  # torch divides by the length of a phase without steps
    expected = run(
        lambda o: lr_scheduler.OneCycleLR(
            o,
            peak,
            total_steps=steps,
            pct_start=warm,
            anneal_strategy=anneal,  # type: ignore[arg-type]
            div_factor=div,
            final_div_factor=final_div,
            three_phase=three_phase,
        ),
        0.1,
        steps,
    )
    sequence = OneCycle(peak, steps, warm, anneal, div, final_div, three_phase)
    assert_values(sequence, expected)
    assert {sequence.value(step) for step in (steps, steps + 1, 10 * steps)} == {sequence.value(steps - 1)}


def test_one_cycle_whose_way_up_has_no_length_begins_at_the_peak() -> None:
    assert OneCycle(0.1, 10, warm=0.1).value(0) == 0.1


@given(RATES, LENGTHS, st.floats(0.01, 1.0), st.floats(0.5, 1.0))
def test_warmup_is_linear_and_then_the_other(lr: float, steps: int, factor: float, gamma: float) -> None:
    expected = run(
        lambda o: lr_scheduler.SequentialLR(
            o,
            [lr_scheduler.LinearLR(o, factor, total_iters=steps), lr_scheduler.ExponentialLR(o, gamma)],
            [steps],
        ),
        lr,
        3 * steps + 5,
    )
    assert_values(Warmup(steps, Exponential(lr, gamma), factor), expected)


@given(RATES, LENGTHS)
def test_warmup_by_default_starts_at_one_increment(lr: float, steps: int) -> None:
    expected = run(
        lambda o: lr_scheduler.SequentialLR(
            o,
            [
                lr_scheduler.LinearLR(o, 1 / (steps + 1), total_iters=steps),
                lr_scheduler.CosineAnnealingLR(o, 30),
            ],
            [steps],
        ),
        lr,
        steps + 90,
    )
    assert_values(Warmup(steps, Cosine(lr, 30)), expected)


@given(RATES, LENGTHS, LENGTHS, st.floats(0.1, 1.0))
def test_then_is_sequential(lr: float, first: int, second: int, gamma: float) -> None:
    expected = run(
        lambda o: lr_scheduler.SequentialLR(
            o,
            [
                lr_scheduler.StepLR(o, 3, gamma),
                lr_scheduler.CosineAnnealingWarmRestarts(o, 7),
                lr_scheduler.PolynomialLR(o, 10, 2.0),
            ],
            [first, first + second],
        ),
        lr,
        first + second + 20,
    )
    chain = Step(lr, 3, gamma).then(CosineRestarts(lr, 7), at=first)
    assert_values(chain.then(Polynomial(lr, 10, 2.0), at=first + second), expected)


@given(RATES, st.integers(1, 1000))
def test_inverse_sqrt(lr: float, scale: int) -> None:
    expected = [lr * math.sqrt(scale / (step + scale)) for step in range(50)]
    assert_values(InverseSqrt(lr, scale), expected)


def test_a_long_cosine_stays_with_its_closed_form() -> None:
    sequence = Cosine(0.1, 27_000, 1e-5)
    for step in (0, 1, 13_500, 26_999, 27_000, 27_001, 54_000, 80_999):
        expected = 1e-5 + (0.1 - 1e-5) * (1 + math.cos(math.pi * step / 27_000)) / 2
        assert sequence.value(step) == pytest.approx(expected, rel=1e-11)
