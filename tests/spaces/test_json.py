import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.errors import InvalidInput
from hippotune.sequences import Constant, Cosine, Exponential, MultiStep, Warmup
from hippotune.spaces import Choice, Grid, Int, LogUniform, Option, Samples, Space, Uniform
from spaces.conditions import small_batches

plain = st.one_of(st.integers(-5, 5), st.floats(-1, 1), st.text(max_size=3), st.booleans())
sequences = st.sampled_from(
    [Constant(0.1), Exponential(0.1, 0.9), MultiStep(1.0, [3, 5], 0.1), Warmup(3, Cosine(0.1, 9))]
)
numbers = st.sampled_from(
    [Uniform(0, 1), Uniform(0, 1, 0.25), LogUniform(1e-3, 1), Int(1, 9), Int(1, 64, log=True)]
)
families = st.builds(
    lambda value, gamma: Exponential(value, gamma), numbers, st.sampled_from([0.9, Uniform(0.8, 1.0)])
)


def options(inner: st.SearchStrategy) -> st.SearchStrategy:
    own = st.dictionaries(st.sampled_from(["p", "q"]), inner, max_size=2)
    return st.lists(st.one_of(inner, st.builds(Option, inner, own)), min_size=1, max_size=3)


fixed = st.one_of(plain, sequences)
anything = st.one_of(fixed, numbers, families)
finite_spaces = st.builds(
    Grid,
    st.fixed_dictionaries(
        {"a": st.one_of(fixed, options(fixed)), "b": st.lists(fixed, min_size=1, max_size=3)}
    ),
)
spaces = st.builds(
    Space, st.fixed_dictionaries({"a": st.one_of(anything, options(anything)), "b": anything, "c": numbers})
)


@given(finite_spaces)
def test_a_grid_comes_back_with_the_same_configs(grid):
    back = Space.from_json(json.loads(json.dumps(grid.to_json())))
    assert back == grid
    assert type(back) is Grid
    assert list(back.configs()) == list(grid.configs())


@given(spaces, st.integers(0, 99))
def test_a_space_comes_back_with_the_same_samples(space, seed):
    back = Space.from_json(json.loads(json.dumps(space.to_json())))
    assert back == space
    assert [back.sample(np.random.default_rng(seed))] == [space.sample(np.random.default_rng(seed))]


@pytest.mark.parametrize("method", ["random", "sobol", "halton"])
def test_samples_come_back(method):
    samples = Samples(
        {"lr": LogUniform(1e-3, 1), "k": Choice(1, Exponential(Uniform(0, 1), 0.5))}, 9, 4, method
    )
    back = Space.from_json(json.loads(json.dumps(samples.to_json())))
    assert back == samples
    assert list(back) == list(samples)


def test_a_condition_is_stored_by_its_name():
    grid = Grid({"bs": [64, 128]}, where=small_batches)
    stored = grid.to_json()
    assert stored["where"] == "spaces.conditions:small_batches"
    back = Space.from_json(json.loads(json.dumps(stored)))
    assert back.where is small_batches
    assert len(back) == 1


def test_a_condition_that_cannot_be_imported_cannot_be_stored():
    with pytest.raises(InvalidInput, match=r"where is .*lambda.*, which cannot be imported"):
        Grid({"bs": [64, 128]}, where=lambda hp: True).to_json()


def test_a_condition_that_is_gone_is_named():
    stored = {**Grid({"bs": [64]}).to_json(), "where": "spaces.conditions:large_batches"}
    with pytest.raises(InvalidInput, match="large_batches' in JSON, and there is no such function"):
        Space.from_json(stored)
