import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.errors import InvalidInput
from hippotune.spaces import Int, LogUniform, Uniform

quantiles = st.floats(0, 1, exclude_max=True)
bounds = st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).map(sorted)
positive = st.tuples(st.floats(1e-9, 1e6), st.floats(1e-9, 1e6)).map(sorted)
whole = st.tuples(st.integers(-1000, 1000), st.integers(-1000, 1000)).map(sorted)


@given(bounds, quantiles)
def test_uniform_stays_within_its_bounds(bound, quantile):
    distribution = Uniform(*bound)
    assert bound[0] <= distribution.at(quantile) <= bound[1]
    assert distribution.at(quantile) in distribution


@given(positive, quantiles)
def test_log_uniform_stays_within_its_bounds(bound, quantile):
    assert bound[0] <= LogUniform(*bound).at(quantile) <= bound[1]


@given(whole, st.integers(1, 50), quantiles)
def test_int_gives_whole_numbers_in_its_steps(bound, step, quantile):
    low, high = bound
    value = Int(low, high, step).at(quantile)
    assert isinstance(value, int)
    assert low <= value <= high
    assert (value - low) % step == 0


@given(quantiles, quantiles)
def test_a_higher_quantile_never_gives_a_lower_value(one, other):
    low, high = sorted((one, other))
    for distribution in (
        Uniform(-1, 3),
        Uniform(0, 1, 0.1),
        LogUniform(1e-5, 1),
        Int(1, 9),
        Int(1, 1000, log=True),
    ):
        assert distribution.at(low) <= distribution.at(high)


def test_steps_are_counted_in_decimal():
    distribution = Uniform(0.1, 0.5, step=0.1)
    assert [distribution.at((n + 0.5) / 5) for n in range(5)] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert Uniform(0, 1, step=0.3).at(0.999) == 0.9


@pytest.mark.parametrize(
    ("distribution", "values"),
    [(Int(3, 6), 4), (Int(0, 10, step=5), 3), (Uniform(0, 1, step=0.25), 5), (Int(7, 7), 1)],
)
def test_every_value_of_a_discrete_distribution_is_as_likely(distribution, values):
    chance = np.random.default_rng(0)
    drawn = [distribution.at(chance.random()) for _ in range(4000)]
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == values
    assert counts.min() > 0.85 * 4000 / values


def test_log_uniform_is_as_likely_in_every_factor_of_ten():
    drawn = [LogUniform(1e-4, 1.0).at((n + 0.5) / 400) for n in range(400)]
    assert np.histogram(np.log10(drawn), bins=[-4, -3, -2, -1, 0])[0].tolist() == [100] * 4
    whole = [Int(1, 100, log=True).at((n + 0.5) / 3000) for n in range(3000)]
    assert min(whole) == 1
    assert max(whole) == 100
    assert sum(value == 1 for value in whole) > 50 * sum(value == 100 for value in whole)


def test_the_nearest_value_is_within_the_distribution():
    assert Uniform(0, 1).nearest(3) == 1
    assert Uniform(0, 1, step=0.25).nearest(0.4) == 0.5
    assert LogUniform(0.1, 1).nearest(0) == 0.1
    assert Int(2, 10, step=4).nearest(7.9) == 6
    assert 0.3 in Uniform(0, 1, step=0.1)
    assert 0.35 not in Uniform(0, 1, step=0.1)
    assert "a" not in Uniform(0, 1)


MISTAKES = [
    (lambda: Uniform(2, 1), "low is 2, above high, which is 1"),
    (lambda: Uniform(0, math.inf), "high is inf"),
    (lambda: Uniform("0", 1), "low is '0'"),
    (lambda: Uniform(0, 1, step=0), "step is 0"),
    (lambda: Uniform(0, 1, step="0.1"), "step is '0.1'; expected a finite number above 0"),
    (lambda: Int(1, 8, log="yes"), "log is 'yes'; expected True or False"),
    (lambda: LogUniform(0, 1), "low is 0 in LogUniform(low=0, high=1); a logarithm needs a bound above 0"),
    (lambda: LogUniform(-1, 1), "low is -1"),
    (lambda: Int(0, 8, log=True), "low is 0"),
    (lambda: Int(0.5, 8), "low is 0.5"),
    (lambda: Int(5, 1), "low is 5, above high"),
    (lambda: Int(1, 8, step=0), "step is 0"),
    (lambda: Int(1, 8, step=2, log=True), "step is 2"),
]


@pytest.mark.parametrize(("make", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_bounds_that_cannot_be_are_named_in_one_line(make, says):
    with pytest.raises(InvalidInput) as error:
        make()
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)
