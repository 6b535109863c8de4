"""The space of a trunk's branches."""

from __future__ import annotations

import numpy as np
import pytest

from hippotune.errors import InvalidInput
from hippotune.sequences import Config, Decay, Warmup
from hippotune.spaces import Branches, Grid, Samples, Space, Uniform
from hippotune.tuners import GridSearch

TRUNK = {"lr": Warmup(100, 0.1), "mix": "web"}
MIXTURES = [{"web": 1 - part / 24, "math": part / 24} for part in range(1, 25)]


def test_mixtures_on_the_last_tenth_of_a_trunk_share_the_rest() -> None:
    mixtures = Branches(TRUNK, at=[14_400], changes={"mix": MIXTURES})
    ends = [Decay(0.1, 1_600, end=end) for end in (0.0, 0.001, 0.01)]
    with_rates = Branches(TRUNK, at=[14_400], changes=Grid({"mix": MIXTURES, "lr": ends}))
    assert (len(mixtures), len(with_rates)) == (24, 72)
    assert [round(space.merge_rate(16_000), 2) for space in (mixtures, with_rates)] == [7.27, 8.89]


def test_every_change_comes_at_every_step() -> None:
    space = Branches(TRUNK, at=[10, 20], changes={"mix": ["math", "code"]})
    assert list(space) == [Config(TRUNK).branch(at, mix=mix) for at in (10, 20) for mix in ("math", "code")]


def test_mixtures_are_conditions_as_they_are_written() -> None:
    changes = Grid({"mix": MIXTURES}, where=lambda hp: hp["mix"]["math"] == 0.75)
    expected = Config(TRUNK).branch(10, mix={"web": 0.25, "math": 0.75})
    assert list(Branches(TRUNK, at=[10], changes=changes)) == [expected]


@pytest.mark.parametrize("drawn", [False, True])
def test_branches_that_would_never_leave_the_trunk_are_refused(drawn: bool) -> None:
    space: Space = Branches(TRUNK, at=[10, 20], changes={"mix": ["math", "code"]})
    space = Samples(space, 2) if drawn else space
    GridSearch(space, "loss", "min", max_steps=21)
    with pytest.raises(
        InvalidInput, match=r"at has the step 20, and max_steps is 20: .*never leave the trunk"
    ):
        GridSearch(space, "loss", "min", max_steps=20)


def test_branches_are_sampled_like_any_space() -> None:
    space = Branches(TRUNK, at=[10, 20], changes={"lr": Uniform(0.0, 0.1)}, absolute=True)
    config = space.sample(np.random.default_rng(0))
    assert config.first_difference(Config(TRUNK), 100) in (10, 20)
    assert all(config["mix"].value(50) == "web" for config in Samples(space, 5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Branches(TRUNK, at=[], changes={"mix": ["math"]}), "at is empty"),
        (lambda: Branches(TRUNK, at=[-1], changes={"mix": ["math"]}), "expected a whole number"),
        (lambda: Branches(TRUNK, at=[1], changes={"at": [3]}), "has a hyper-parameter 'at'"),
    ],
)
def test_what_cannot_be_meant_is_refused(make: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()  # type: ignore[operator]
