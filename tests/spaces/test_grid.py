import itertools

import numpy as np
import pytest

from hippotune.errors import InvalidInput
from hippotune.sequences import Config, Constant, Cosine, Exponential, MultiStep, Warmup
from hippotune.spaces import Choice, Grid, Option, as_space


def test_a_grid_is_the_product_in_a_fixed_order_the_last_hyper_parameter_varying_fastest():
    lrs = [Constant(0.1), Exponential(0.1, 0.95), Warmup(5, Cosine(0.1, 115))]
    batches = [128, MultiStep(128, [40], 2)]
    optimizers = ["sgd", "adam"]
    grid = Grid({"lr": lrs, "bs": batches, "optimizer": optimizers})
    product = itertools.product(lrs, batches, optimizers)
    assert list(grid.configs()) == [Config({"lr": lr, "bs": bs, "optimizer": o}) for lr, bs, o in product]
    assert len(grid) == 12
    assert list(grid) == list(grid.configs())


def test_where_gets_the_values_as_they_were_written():
    seen = []

    def where(hp):
        seen.append(dict(hp))
        hp.clear()  # what a condition does to its dict is its own business
        return True

    schedule = Exponential(0.1, 0.5)
    grid = Grid({"lr": [0.1, schedule], "flag": [True], "name": "x"}, where=where)
    configs = list(grid.configs())
    assert {"lr": 0.1, "flag": True, "name": "x"} in seen
    assert {"lr": schedule, "flag": True, "name": "x"} in seen
    assert configs[1] == Config({"lr": schedule, "flag": True, "name": "x"})


def test_where_leaves_out_what_it_rejects():
    grid = Grid({"a": [1, 2, 3], "b": [1, 2, 3]}, where=lambda hp: hp["a"] + hp["b"] <= 3)
    assert [config.values(0) for config in grid] == [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}]
    assert len(grid) == 3


def test_an_option_brings_hyper_parameters_of_its_own():
    grid = Grid({"optimizer": ["adam", Option("sgd", {"momentum": [0.9, 0.99]})], "lr": [0.1, 0.2]})
    assert [config.values(0) for config in grid] == [
        {"optimizer": "adam", "lr": 0.1},
        {"optimizer": "adam", "lr": 0.2},
        {"optimizer": "sgd", "momentum": 0.9, "lr": 0.1},
        {"optimizer": "sgd", "momentum": 0.9, "lr": 0.2},
        {"optimizer": "sgd", "momentum": 0.99, "lr": 0.1},
        {"optimizer": "sgd", "momentum": 0.99, "lr": 0.2},
    ]


def test_options_nest_and_two_of_them_may_bring_the_same_name():
    grid = Grid(
        {
            "optimizer": [
                Option("sgd", {"momentum": [0.9, Option(0.99, {"nesterov": [True, False]})]}),
                Option("rmsprop", {"momentum": 0.0}),
            ]
        }
    )
    assert [config.values(0) for config in grid] == [
        {"optimizer": "sgd", "momentum": 0.9},
        {"optimizer": "sgd", "momentum": 0.99, "nesterov": True},
        {"optimizer": "sgd", "momentum": 0.99, "nesterov": False},
        {"optimizer": "rmsprop", "momentum": 0.0},
    ]


def test_a_sequence_with_choices_among_its_parameters_is_every_sequence_that_it_can_be():
    grid = Grid({"lr": Warmup(Choice(2, 5), Choice(Exponential(Choice(0.1, 0.2), 0.9), 0.3))})
    assert [config["lr"] for config in grid] == [
        Warmup(2, Exponential(0.1, 0.9)),
        Warmup(2, Exponential(0.2, 0.9)),
        Warmup(2, Constant(0.3)),
        Warmup(5, Exponential(0.1, 0.9)),
        Warmup(5, Exponential(0.2, 0.9)),
        Warmup(5, Constant(0.3)),
    ]


def test_equal_values_become_one_object_but_numbers_and_booleans_stay_apart():
    grid = Grid({"a": [1, 1.0, True], "b": [1, 2]})
    first, second = itertools.islice(grid, 2)
    assert first["a"] is second["a"] is first["b"]
    assert [config.values(0)["a"] for config in grid][::2] == [1, 1.0, True]


def test_a_list_a_range_and_a_choice_are_the_same():
    assert [*Grid({"n": [0, 1, 2]})] == [*Grid({"n": range(3)})] == [*Grid({"n": Choice(0, 1, 2)})]


def test_a_plain_dict_is_a_grid():
    assert as_space({"a": [1, 2]}) == Grid({"a": [1, 2]})
    assert type(as_space({"a": [1, 2]})) is Grid


def test_drawing_from_a_grid_draws_nothing_twice():
    grid = Grid({"a": range(5), "b": range(4)})
    assert sorted(map(hash, grid.draw(20, seed=3))) == sorted(map(hash, grid))
    assert len(set(grid.draw(7, seed=0))) == 7
    assert grid.draw(7, seed=0) == grid.draw(7, seed=0) != grid.draw(7, seed=1)


def test_arrays_are_lists_of_their_numbers():
    assert list(Grid({"lr": np.linspace(0, 1, 3)})) == list(Grid({"lr": [0.0, 0.5, 1.0]}))


MISTAKES = [
    (lambda: Grid({}), "a space is empty"),
    (lambda: Grid([1]), "a space is [1]; expected a dict"),
    (lambda: Grid({"lr": []}), "hyper-parameter 'lr' is an empty list"),
    (
        lambda: Grid({"lr": (0.1, 0.2)}),
        "hyper-parameter 'lr' is (0.1, 0.2); expected a value, a sequence, a list",
    ),
    (lambda: Grid({"lr": {0.1, 0.2}}), "hyper-parameter 'lr' is {"),
    (lambda: Grid({"lr": [0.1, None]}), "hyper-parameter 'lr' is None"),
    (lambda: Grid({"lr": [float("nan")]}), "hyper-parameter 'lr' is nan"),
    (lambda: Grid({"lr": {"sgd": "fast"}}), "hyper-parameter 'lr': the weight of 'sgd' is 'fast'"),
    (lambda: Grid({3: [1]}), "hyper-parameter name is 3"),
    (lambda: Grid({"a/b": [1]}), "hyper-parameter name is 'a/b'"),
    (lambda: Grid({"a": Choice()}), "a choice has no options"),
    (lambda: Grid({"a": [1]}, where=3), "where is 3; expected a function"),
    (lambda: Grid({"a": [1, 2]}, where=lambda hp: False), "where rejects every config; the space is empty"),
    (
        lambda: Grid({"o": [Option("x", {"o": 1})]}),
        "hyper-parameter 'o' has an option with a hyper-parameter",
    ),
    (lambda: Grid({"o": [Option("x", {"p": 1})], "p": 2}), "hyper-parameter 'p' is there twice"),
    (
        lambda: Grid({"lr": Exponential(Choice(Option(0.1, {"x": 1}), 0.2), 0.9)}),
        "hyper-parameter 'lr' has Option(value=0.1, parameters={'x': 1}) inside a sequence",
    ),
    (lambda: Grid({"a": [1, 2]}).draw(3, seed=0), "3 configs were asked for; the space has only 2"),
]


@pytest.mark.parametrize(("make", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_what_cannot_be_used_is_named_in_one_line(make, says):
    with pytest.raises(InvalidInput) as error:
        make()
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)
