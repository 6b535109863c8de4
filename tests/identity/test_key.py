"""What makes a plan another plan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hippotune.errors import InvalidInput
from hippotune.identity.key import Identity, PlanKey
from identity.walkers import Walker


class Digits:
    pass


def test_equal_settings_give_equal_keys_however_they_are_written() -> None:
    one = Identity.of(Digits, {"layers": [32, 32], "data": {"a": 1, "b": None}}, seed=3).key
    other = Identity.of(Digits, {"data": {"a": 1, "b": None}, "layers": [32, 32]}, seed=3).key
    assert one == other
    assert one.digest == other.digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}]),
        ([1, 2], (1, 2)),
        (0.5, np.float64(0.5)),
        (math.inf, "Infinity"),
        ({"type": ["float64", 0.5]}, np.float64(0.5)),
        ({1: "a"}, {"1": "a"}),
        ({1: 0, "a": 0}, {"1": 0, "a": 0}),
        ((1,), {"()": [1]}),
    ],
)
def test_values_of_settings_that_a_trainer_can_tell_apart_give_other_plans(one: Any, other: Any) -> None:
    assert Identity.of(Digits, {"value": one}).key == Identity.of(Digits, {"value": one}).key
    before, now = (Identity.of(Digits, {"value": value}) for value in (one, other))
    assert before.key != now.key
    assert "settings['value']" in before.changes_to(now)[0]


def test_a_trainer_gets_its_settings_in_one_order_however_they_are_written() -> None:
    assert list(Walker({"b": 1, "a": {"d": 1, "c": 1}}).settings) == ["a", "b"]
    assert list(Walker({"b": 1, "a": {"d": 1, "c": 1}}).settings["a"]) == ["d", "c"]


@pytest.mark.parametrize(
    "change",
    [{"settings": {"hidden": 64}}, {"seed": 1}, {"version": "2"}, {"version": None}, {"trainer": int}],
)
def test_whatever_decides_results_decides_the_plan(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"trainer": Digits, "settings": {"hidden": 32}, "seed": 0, "version": "1"}
    assert Identity.of(**given).key.digest != Identity.of(**{**given, **change}).key.digest


def test_a_version_stands_in_for_the_source_and_is_not_taken_for_it() -> None:
    by_source = Identity.of(Digits).key
    assert by_source.version.startswith("source:")
    by_version = Identity.of(Digits, version=by_source.version.removeprefix("source:")).key
    assert by_version.digest != by_source.digest


def test_a_digest_is_the_same_everywhere_and_can_name_a_folder() -> None:
    assert PlanKey("Digits", "version:1", '{"hidden":32}', 7).digest == "e772743edf6af22f"


@pytest.mark.parametrize("settings", [{"model": object()}, {"sizes": {1, 2}}])
def test_settings_that_cannot_be_written_down_are_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=rf"settings\['{next(iter(settings))}'\]"):
        Identity.of(Digits, settings)


def test_settings_are_found_by_names() -> None:
    with pytest.raises(InvalidInput, match="the key 1"):
        Identity.of(Digits, {1: 2})  # type: ignore[dict-item]
