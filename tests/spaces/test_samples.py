import builtins

import numpy as np
import pytest

from hippotune.errors import InvalidInput, MissingExtra
from hippotune.sequences import Exponential, Warmup
from hippotune.spaces import Grid, Int, LogUniform, Option, Samples, Space, Uniform, as_space

SPACE = {
    "lr": Exponential(LogUniform(1e-4, 1.0), 0.95),
    "warm": Warmup(Int(1, 10), Exponential(Uniform(0.1, 0.2), 0.9)),
    "optimizer": ["adam", Option("sgd", {"momentum": Uniform(0.5, 0.99)})],
}
METHODS = ["random", "sobol", "halton"]


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_configs_and_another_seed_others(method):
    first = list(Samples(SPACE, 20, seed=7, method=method).configs())
    assert first == list(Samples(SPACE, 20, seed=7, method=method).configs())
    assert first != list(Samples(SPACE, 20, seed=8, method=method).configs())
    assert len(set(first)) == 20


@pytest.mark.parametrize("method", METHODS)
def test_samples_are_a_finite_space(method):
    samples = Samples(SPACE, 12, method=method)
    assert len(samples) == 12
    assert samples.finite
    assert samples.sample(np.random.default_rng(0)) in list(samples)
    assert len(set(samples.draw(12, seed=1))) == 12


@pytest.mark.parametrize("method", METHODS)
def test_what_depends_on_a_choice_is_there_only_where_it_is_chosen(method):
    for config in Samples(SPACE, 32, method=method):
        assert ("momentum" in config) == (config["optimizer"].value(0) == "sgd")
        if "momentum" in config:
            assert 0.5 <= config["momentum"].value(0) <= 0.99


@pytest.mark.parametrize("method", METHODS)
def test_what_where_rejects_is_replaced(method):
    space = Space({"a": Uniform(0, 1), "b": Uniform(0, 1)}, where=lambda hp: hp["a"] < hp["b"])
    values = [config.values(0) for config in Samples(space, 50, method=method)]
    assert len(values) == 50
    assert all(value["a"] < value["b"] for value in values)


@pytest.mark.parametrize("method", ["sobol", "halton"])
def test_quasi_random_points_are_spread_more_evenly_than_chance(method):
    samples = [
        config.values(0)["x"]
        for config in Samples({"x": Uniform(0, 1), "y": Uniform(0, 1)}, 64, method=method)
    ]
    assert all(np.histogram(samples, bins=8, range=(0, 1))[0] >= 6)


def test_the_first_sobol_samples_do_not_depend_on_the_condition():
    free = [config.values(0) for config in Samples({"a": Uniform(0, 1)}, 16, method="sobol")]
    space = Space({"a": Uniform(0, 1)}, where=lambda hp: hp["a"] > 0.5)
    picky = [config.values(0) for config in Samples(space, 8, method="sobol")]
    assert [value for value in free if value["a"] > 0.5][:4] == picky[:4]


def test_random_samples_of_a_grid_are_not_drawn_twice():
    assert len(set(Samples({"a": range(6)}, 6))) == 6


def test_a_sample_asks_a_generator_that_the_caller_brings():
    space = as_space(SPACE)
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    assert [space.sample(one) for _ in range(5)] == [space.sample(other) for _ in range(5)]


def test_a_space_with_distributions_has_no_end_and_says_so():
    space = as_space(SPACE)
    assert type(space) is Space
    assert not space.finite
    for ask in (lambda: len(space), space.configs, lambda: space.merge_rate(10)):
        with pytest.raises(InvalidInput, match=r"has no end \(lr/value, warm/steps"):
            ask()
    with pytest.raises(InvalidInput, match="take Samples of it"):
        Grid(SPACE)


MISTAKES = [
    (lambda: Samples(SPACE, 0), "n is 0"),
    (lambda: Samples(SPACE, 3, seed=-1), "seed is -1"),
    (
        lambda: Samples(SPACE, 3, method="latin"),
        "method is 'latin'; expected one of 'random', 'sobol', 'halton'",
    ),
    (lambda: Samples({"a": [1, 2]}, 3), "n is 3; the space has only 2 configs"),
    (
        lambda: list(Samples(Space({"a": Uniform(0, 1)}, where=lambda hp: False), 1)),
        "where= rejected 1000 samples in a row",
    ),
    (
        lambda: list(Samples(Space({"a": Uniform(0, 1)}, where=lambda hp: False), 1, method="sobol")),
        "where= rejected 1000 samples in a row",
    ),
]


@pytest.mark.parametrize(
    ("make", "says"), MISTAKES, ids=[f"{n} {says}" for n, (_, says) in enumerate(MISTAKES)]
)
def test_what_cannot_be_used_is_named_in_one_line(make, says):
    with pytest.raises(InvalidInput) as error:
        make()
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


def test_without_scipy_quasi_random_samples_say_what_to_install(monkeypatch):
    find = builtins.__import__

    def without_scipy(name, *rest):
        if name.startswith("scipy"):
            raise ImportError(name)
        return find(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_scipy)
    with pytest.raises(MissingExtra, match="needs SciPy: pip install"):
        list(Samples(SPACE, 4, method="sobol"))
