"""Configs: immutable, sorted by name, quick to compare."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.sequences import (
    Config,
    Constant,
    Exponential,
    Linear,
    MultiStep,
    Piecewise,
    Sequence,
    Table,
    Warmup,
)
from sequences.strategies import LONGEST, configs


def example() -> Config:
    return Config(
        {"lr": Exponential(0.1, 0.5), "bs": MultiStep(128, [2], 2), "optimizer": "sgd", "nesterov": True}
    )


def test_a_config_is_a_mapping_sorted_by_name_with_constants_for_plain_values() -> None:
    config = example()
    assert isinstance(config, Mapping)
    assert list(config) == ["bs", "lr", "nesterov", "optimizer"]
    assert config["optimizer"] == Constant("sgd")
    assert len(config) == 4
    assert "lr" in config
    assert "momentum" not in config
    with pytest.raises(KeyError, match="momentum"):
        config["momentum"]
    assert dict(config)["lr"] == Exponential(0.1, 0.5)


def test_the_order_in_which_names_are_given_does_not_matter() -> None:
    assert Config({"a": 1, "b": 2}) == Config({"b": 2, "a": 1})
    assert hash(Config({"a": 1, "b": 2})) == hash(Config({"b": 2, "a": 1}))
    assert Config({"a": 1}) != Config({"b": 1})


def test_values_and_changes_at_a_step() -> None:
    config = example()
    assert config.values(0) == {"bs": 128, "lr": 0.1, "nesterov": True, "optimizer": "sgd"}
    assert config.changes(0) == config.values(0)
    assert config.changes(1) == {"lr": 0.05}
    assert config.changes(2) == {"bs": 256, "lr": 0.025}
    assert Config({"a": Piecewise([1, True], [1])}).changes(1) == {"a": True}


@given(configs(), st.integers(1, LONGEST - 1))
def test_changes_applied_one_after_the_other_give_the_values(config: Config, until: int) -> None:
    values = {}
    for step in range(until):
        values.update(config.changes(step))
        assert values == config.values(step)


@given(configs(), configs(), st.integers(0, LONGEST - 1))
def test_keys_are_equal_exactly_where_names_and_values_are(first: Config, second: Config, step: int) -> None:
    one, other = first.values(step), second.values(step)
    equal = all(
        one[name] == other[name] and isinstance(one[name], bool) == isinstance(other[name], bool)
        for name in first
    )
    assert (first.key(step) == second.key(step)) == equal
    if equal:
        assert hash(first.key(step)) == hash(second.key(step))


def test_keys_tell_names_and_kinds_apart_but_not_ways_to_write_a_number() -> None:
    assert Config({"a": 1}).key(0) != Config({"b": 1}).key(0)
    assert Config({"a": 1}).key(0) != Config({"a": True}).key(0)
    assert Config({"a": 128}).key(0) == Config({"a": 128.0}).key(0)
    assert Config({}).key(0) == Config({}).key(3)


def test_configs_with_different_names_part_at_once() -> None:
    first, second = Config({"a": 1}), Config({"a": 1, "b": 2})
    assert first.first_difference(second, 10) == 0
    assert first.first_difference(second, 0) is None
    assert first.first_difference(Config({"a": 1.0}), 10**6) is None


def test_sequences_that_are_one_object_are_not_looked_into() -> None:
    class Untouchable(Sequence):
        """Refuses to be asked anything."""

        __slots__ = ()

        def __init__(self) -> None:
            super().__init__()

        def _piece(self, step: int) -> object:  # type: ignore[override]
            raise AssertionError("asked")

    shared = Untouchable()
    first, second = Config({"a": shared, "b": 1}), Config({"a": shared, "b": Piecewise([1, 2], [7])})
    assert first.first_difference(second, 10**6) == 7


@given(configs())
def test_json_and_pickle_bring_back_an_equal_config(config: Config) -> None:
    for again in (
        Config.from_json(json.loads(json.dumps(config.to_json()))),
        pickle.loads(pickle.dumps(config)),
    ):
        assert again == config
        assert hash(again) == hash(config)
        assert again.first_difference(config, LONGEST) is None


def test_json_and_repr_show_constants_as_their_values() -> None:
    config = Config({"lr": Warmup(5, 0.1), "optimizer": "sgd"})
    assert config.to_json()["optimizer"] == "sgd"
    assert repr(config) == "Config({'lr': Warmup(5, 0.1), 'optimizer': 'sgd'})"
    assert eval(repr(config)) == config


def test_a_config_never_changes() -> None:
    config = example()
    with pytest.raises(AttributeError, match="never changes"):
        config.names = ()
    with pytest.raises(TypeError):
        config["lr"] = Constant(1)  # type: ignore[index]


def test_the_limit_of_a_config_is_that_of_its_shortest_table() -> None:
    assert example().limit is None
    assert Config({"a": Table([1, 2, 3]), "b": Linear(0, 1, 2), "c": Table([1, 2])}).limit == 2
