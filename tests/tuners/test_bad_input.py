import pytest

from hippotune.errors import InvalidInput
from hippotune.spaces import Grid, Uniform
from hippotune.tuners import (
    ASHA,
    BOHB,
    PASHA,
    PBT,
    EarlyStop,
    GridSearch,
    Hyperband,
    MedianStopping,
    OptunaSearch,
    RandomSearch,
    SuccessiveHalving,
    TrialList,
)
from tuners.scripted import numbered

GRID = Grid(numbered(8))
ENDLESS = {"lr": Uniform(0, 1)}

MISTAKES = [
    (lambda: GridSearch(GRID, "acc", "best", 5), "mode is 'best'; expected one of 'max', 'min'"),
    (lambda: GridSearch(GRID, "", "max", 5), "metric is ''"),
    (lambda: GridSearch(GRID, "acc", "max", 0), "max_steps is 0; expected a whole number of at least 1"),
    (lambda: GridSearch(GRID, "acc", "max", 2.5), "max_steps is 2.5"),
    (lambda: GridSearch(GRID, "acc", "max", True), "max_steps is True"),
    (lambda: GridSearch("lr", "acc", "max", 5), "space is 'lr'; expected a Space"),
    (lambda: TrialList([], "acc", "max"), "trials is empty; expected pairs of a config and the steps"),
    (lambda: TrialList([{"lr": 1}], "acc", "max"), "trials[0] is {'lr': 1}; expected a config and the steps"),
    (lambda: TrialList(None, "acc", "max"), "trials is None; expected a list"),
    (lambda: TrialList([({"lr": 1}, 0)], "acc", "max"), "the length of trial 0 is 0; expected a whole"),
    (lambda: GridSearch({}, "acc", "max", 5), "a space is empty"),
    (lambda: GridSearch(ENDLESS, "acc", "max", 5), "trials is missing"),
    (lambda: RandomSearch(GRID, "acc", "max", 5, trials=9), "trials is 9; the space has only 8 configs"),
    (lambda: RandomSearch(GRID, "acc", "max", 5, trials=0), "trials is 0"),
    (lambda: RandomSearch(GRID, "acc", "max", 5, trials=3, seed=-1), "seed is -1"),
    (lambda: SuccessiveHalving(GRID, "acc", "max", 10, 5), "max_steps is 5, below min_steps, which is 10"),
    (
        lambda: SuccessiveHalving(GRID, "acc", "max", 1, 5, reduction=1),
        "reduction is 1; expected a whole number of at least 2",
    ),
    (lambda: SuccessiveHalving(GRID, "acc", "max", 1, 5, reduction=2.5), "reduction is 2.5"),
    (lambda: SuccessiveHalving(ENDLESS, "acc", "max", 1, 5), "trials is missing"),
    (lambda: Hyperband(GRID, "acc", "max", 1, 9, iterations=0), "iterations is 0"),
    (lambda: Hyperband(GRID, "acc", "max", 10, 9), "max_steps is 9"),
    (
        lambda: BOHB(GRID, "acc", "max", 1, 9, random_fraction=1.5),
        "random_fraction is 1.5; expected a finite number at least 0 and at most 1",
    ),
    (lambda: ASHA(ENDLESS, "acc", "max", 1, 9), "trials is missing"),
    (lambda: ASHA(GRID, "acc", "max", 1, 9, trials=100), "trials is 100"),
    (lambda: PASHA(GRID, "acc", "max", 1, 9, every=0), "every is 0"),
    (lambda: MedianStopping(GRID, "acc", "max", 9, warmup_steps=-1), "warmup_steps is -1"),
    (lambda: EarlyStop(GRID, "acc", "max", [5, 5], [4]), "milestones is [5, 5]"),
    (lambda: EarlyStop(GRID, "acc", "max", [], []), "milestones is []"),
    (lambda: EarlyStop(GRID, "acc", "max", [5, 10], []), "keep is []; expected 1 numbers"),
    (
        lambda: EarlyStop(GRID, "acc", "max", [5, 10], [9]),
        "keep is [9]; expected falling numbers of at most 8",
    ),
    (lambda: PBT(ENDLESS, "acc", "max", 0, 10), "interval is 0"),
    (lambda: PBT(ENDLESS, "acc", "max", 10, 10), "interval is 10; expected less than max_steps, which is 10"),
    (lambda: PBT(ENDLESS, "acc", "max", 5, 10, population=1), "population is 1"),
    (
        lambda: PBT(ENDLESS, "acc", "max", 5, 10, quantile=0.6),
        "quantile is 0.6; expected a finite number at least 0 and at most 0.5",
    ),
    (
        lambda: PBT(ENDLESS, "acc", "max", 5, 10, explore=["wd"]),
        "explore is ['wd']; expected names among ['lr']",
    ),
    (lambda: PBT(GRID, "acc", "max", 5, 10, explore=3), "explore is 3; expected a list"),
    (lambda: EarlyStop(GRID, "acc", "max", 5, [4]), "milestones is 5; expected a list"),
    (lambda: EarlyStop(GRID, "acc", "max", [5, 10], 4), "keep is 4; expected a list"),
    (lambda: OptunaSearch(GRID, "acc", "max", 5, trials=9), "trials is 9"),
]


@pytest.mark.parametrize(("make", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_what_cannot_be_used_is_named_in_one_line(make, says):
    with pytest.raises(InvalidInput) as error:
        make()
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [ASHA, PASHA, Hyperband])
def test_something_that_is_no_sampler_is_refused(kind):
    with pytest.raises(InvalidInput, match=r"sampler is 'tpe'; expected one of optuna\.samplers"):
        kind({"lr": [0.1]}, "score", "max", 1, 9, sampler="tpe")
