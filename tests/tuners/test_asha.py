import asyncio
import math

from hypothesis import given
from hypothesis import strategies as st

from hippotune.sequences import Piecewise
from hippotune.spaces import Grid, LogUniform
from hippotune.tuners import ASHA
from tuners.plain_algorithms import check_promotions
from tuners.scripted import Scripted, Sharing, by_number, numbered, tune


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, list[int], int, dict[tuple[int, int], float | None]]:
    trials, reduction = draw(st.integers(1, 30)), draw(st.integers(2, 4))
    steps = [1, reduction, reduction**2, reduction**3][: draw(st.integers(1, 4))]
    value = st.one_of(st.integers(0, 9).map(float), st.just(math.nan), st.none())
    return trials, steps, reduction, {(t, step): draw(value) for t in range(trials) for step in steps}


@given(tables(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_every_job_is_the_one_that_the_published_rule_names(table, workers, order):
    trials, steps, reduction, scores = table
    tuner = ASHA(numbered(trials), "score", "max", steps[0], steps[-1], reduction)
    done = tune(tuner, by_number(lambda n, step: scores[n, step]), workers, order.randrange)
    check_promotions(done, steps, reduction, trials, workers)


def test_the_least_scores_go_on_where_less_is_better():
    low = tune(ASHA(numbered(16), "score", "min", 1, 16, 4), by_number(lambda n, step: float(n)), workers=3)
    high = tune(ASHA(numbered(16), "score", "max", 1, 16, 4), by_number(lambda n, step: -float(n)), workers=3)
    assert low.log == high.log
    assert low.reached()[0] == 16


def test_all_workers_are_kept_busy_as_long_as_there_is_something_to_do():
    done = tune(ASHA(numbered(20), "score", "max", 1, 9, 3), by_number(lambda n, step: float(n)), workers=5)
    under_way, started = 0, 0
    for kind, _, step in done.log:
        under_way += 1 if kind == "ask" else -1
        started += kind == "ask" and step == 1
        assert under_way <= 5
        if kind != "ask" and started < 20:
            assert under_way == 4  # one has just ended, and its worker gets the next job


def test_a_study_too_small_to_promote_by_the_rule_still_trains_its_best_trial_to_the_end():
    done = tune(ASHA(numbered(3), "score", "max", 1, 16, 4), by_number(lambda n, step: float(n)), workers=2)
    assert done.reached() == {0: 1, 1: 1, 2: 16}


def test_where_every_promotion_fails_the_study_ends_without_trying_all():
    def table(n: int, step: int) -> float | None:
        return -float(n) if step == 1 else None

    done = tune(ASHA(numbered(16), "score", "max", 1, 4, 4), by_number(table), workers=4)
    asked_on = [number for kind, number, step in done.log if kind == "ask" and step == 4]
    assert asked_on == [0, 1, 2, 3]


def test_a_paused_trial_may_go_on_at_any_later_time():
    scores = {0: 5.0, 1: 9.0, 2: 1.0, 3: 1.0, 4: 1.0, 5: 1.0, 6: 1.0, 7: 1.0}
    done = tune(ASHA(numbered(8), "score", "max", 1, 4, 4), by_number(lambda n, step: scores[n]), workers=1)
    asks = [(number, step) for kind, number, step in done.log if kind == "ask"]
    assert asks[:6] == [(0, 1), (1, 1), (2, 1), (3, 1), (1, 4), (4, 1)]
    assert asks[-1] == (0, 4)  # eight at the bottom: two may go on, and trial 0 is the second best


def test_trials_that_share_all_their_steps_take_one_worker():
    """Four trials of each learning rate agree for ten steps: the first four and one more take two workers."""
    space = Grid({"lr": [0.1, 0.2], "bs": [Piecewise([1, 2], [at]) for at in (10, 11, 12, 13)]})
    first_heard = []
    for kind in (Scripted, Sharing):
        trials = kind(lambda config, step: 0.0, workers=2)
        asyncio.run(ASHA(space, "score", "max", 10, 40, 4).run(trials))
        what = [event for event, *_ in trials.log]
        first_heard.append(what.index("hear"))
        assert what.count("ask") == 10
    assert first_heard == [2, 5]


def test_so_many_trials_are_drawn_from_a_space_without_end():
    space = {"lr": LogUniform(1e-4, 1.0)}
    tuner = ASHA(space, "score", "max", 1, 9, 3, trials=10, seed=3)
    done = tune(tuner, lambda config, step: float(config["lr"].value(0)), workers=2)
    assert len(done.trials) == 10
    assert [trial.config for trial in done.trials] == tuner.configs()
    assert len(set(tuner.configs())) == 10
