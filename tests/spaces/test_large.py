"""Spaces that are too large to be listed: they are counted and drawn from without making every config."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import pytest

from hippotune.errors import InvalidInput
from hippotune.sequences import Exponential, Warmup
from hippotune.spaces import Choice, Grid, Option, Samples, Space, space
from hippotune.tuners import ASHA, Hyperband, RandomSearch

DIGITS = list(range(10))
TEN_MILLION: dict[str, Any] = dict.fromkeys("abcdefg", DIGITS)
SCHEDULES = {"lr": Warmup(Choice(*DIGITS[1:]), Exponential(Choice(*DIGITS), Choice(*DIGITS))), **TEN_MILLION}
MEGABYTE = 1 << 20


@pytest.mark.parametrize("where", [None, lambda hp: hp["a"] != hp["b"], lambda hp: hp["a"] >= 5 != hp["g"]])
def test_ten_million_configs_are_sampled_in_little_memory(where: Any) -> None:
    tracemalloc.start()
    try:
        grid = Grid(TEN_MILLION, where=where)
        asha = ASHA(grid, "loss", "min", min_steps=1, max_steps=9, trials=100)
        hyperband = Hyperband(grid, "loss", "min", min_steps=1, max_steps=9)
        drawn = [asha.configs(), hyperband.configs(), list(Samples(grid, 100))]
        assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE
    finally:
        tracemalloc.stop()
    for configs in (drawn[0], drawn[2]):
        assert len(set(configs)) == 100
        assert where is None or all(where(config.values(0)) for config in configs)
    assert drawn[0] == asha.configs()
    assert drawn[0] != grid.draw(100, seed=1)


def test_they_are_counted_without_being_made() -> None:
    assert len(Grid(TEN_MILLION)) == 10**7
    assert len(Grid(SCHEDULES)) == 9 * 10**9
    assert len(Grid(SCHEDULES).draw(5, seed=0)) == 5
    with pytest.raises(InvalidInput, match=r"trials is 10000001; the space has only 10000000 configs"):
        RandomSearch(TEN_MILLION, "loss", "min", max_steps=1, trials=10**7 + 1)


@pytest.fixture
def _nothing_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "_LISTED", 0)


NESTED = {
    "optimizer": ["adam", Option("sgd", {"momentum": [0.8, 0.9, Option(0.99, {"nesterov": [True, False]})]})],
    "lr": Exponential(Choice(0.1, 0.2), 0.9),
}


@pytest.mark.usefixtures("_nothing_is_listed")
def test_every_config_is_as_likely_and_all_can_be_drawn() -> None:
    nested = Space(NESTED)
    everything = list(nested.configs())
    assert len(nested) == len(everything) == 10
    assert set(nested.draw(10, seed=3)) == set(everything)
    firsts = Counter(nested.draw(1, seed)[0] for seed in range(2000))
    assert set(firsts) == set(everything)
    assert max(firsts.values()) < 1.5 * min(firsts.values())


@pytest.mark.usefixtures("_nothing_is_listed")
def test_what_chance_does_not_find_is_looked_for_in_the_list() -> None:
    rare = Grid(
        {"a": DIGITS, "b": DIGITS, "c": DIGITS, "d": DIGITS}, where=lambda hp: len(set(hp.values())) == 1
    )
    assert rare.up_to(100) == len(rare) == 10
    assert set(rare.draw(10, seed=0)) == set(rare.configs())
    with pytest.raises(InvalidInput, match="11 configs were asked for; the space has only 10"):
        rare.draw(11, seed=0)
    with pytest.raises(InvalidInput, match="the space is empty"):
        Grid(NESTED, where=lambda hp: False)
