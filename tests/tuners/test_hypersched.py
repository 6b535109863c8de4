"""HyperSched: its published rules by worked cases, and what they come to in a race."""

import asyncio
import math
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune import Config, InvalidInput, Piecewise, Simulated, Study
from hippotune.engine.width_allocator import growth_pays
from hippotune.scheduling.allocation import Allocation, allocate
from hippotune.scheduling.policy import Contender
from hippotune.scheduling.width import WAITS, ladder
from hippotune.tuners import HyperSched, Trial
from hippotune.tuners.base import Timing
from hippotune.tuners.cutoffs import Cutoffs, cutoff
from hippotune.tuners.hypersched import fair_seconds
from tuners.scripted import Score, Scripted, Sharing, by_number, numbered, tune
from tuners.test_conformance import Idle

KINDS = ("uniform", "top", "softmax")
RESNET50 = {1: 1.0, 2: 1.870, 4: 3.421, 8: 5.598}


def trial(number: int) -> Trial:
    return Trial(number, Config({"n": number}))


# Rungs.


def test_the_published_case_of_frozen_scores_and_repeated_tests() -> None:
    rung = Cutoffs([2, 8], reduction=4)
    for number, score in enumerate([0.5, 0.6, 0.7, 0.8, 0.74]):
        assert rung.report(trial(number), 2, score)
        expected = [None, 0.575, 0.65, 0.725, 0.74][number]
        assert rung.least[0] == (None if expected is None else pytest.approx(expected))
    assert not rung.report(trial(2), 4, 0.99), "what it scores now does not count: its .7 at the rung does"
    assert not rung.may_go_on(trial(2))
    for number in range(5, 9):
        assert not rung.report(trial(number), 2, 0.1)
    assert rung.least[0] == pytest.approx(0.7)
    assert rung.may_go_on(trial(2))


def test_a_state_counts_once_however_many_trials_share_it() -> None:
    rung = Cutoffs([2], reduction=4)
    scores = [0.1, 0.2, 0.3, 0.4, 0.5]
    for number, score in enumerate(score for score in scores for _ in range(20)):
        rung.report(trial(number), 2, score, state=score)
    assert rung.least == [cutoff(scores, 4)] == [0.4]


@pytest.mark.parametrize(("bearable", "least"), [(0.0, 0.4), (1.0, 0.4), (2.5, 0.3), (5.0, 0.1), (99.0, 0.1)])
def test_where_trials_share_as_many_states_go_on_as_there_is_time_for(bearable: float, least: float) -> None:
    shared, alone = Cutoffs([2], 4, lambda rung: bearable), Cutoffs([2], 4, lambda rung: bearable)
    for number, score in enumerate([0.1, 0.2, 0.3, 0.4, 0.5]):
        alone.report(trial(number), 2, score)
        for twin in range(3):
            shared.report(trial(3 * number + twin), 2, score, state=score)
    assert shared.least == [pytest.approx(least)]
    assert alone.least == [0.4]


def test_every_rung_that_was_passed_counts() -> None:
    rungs = Cutoffs([1, 4], reduction=2)
    assert rungs.report(trial(0), 4, 5.0), "at both rungs it is the first"
    assert rungs.report(trial(1), 1, 6.0)
    assert not rungs.may_go_on(trial(0)), "5 is below 5.5 at the first rung"
    assert rungs.report(trial(1), 4, 1.0), "and this one is the second at the second"
    assert not rungs.may_go_on(trial(1)), "where 1 is below 3"


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.integers(2, 5))
def test_a_cutoff_is_the_percentile_with_linear_interpolation(scores: list[float], reduction: int) -> None:
    import numpy as np

    expected = np.percentile(scores, 100 * (1 - 1 / reduction), method="linear")
    assert cutoff(sorted(scores), reduction) == pytest.approx(float(expected), rel=1e-9, abs=1e-9)


@given(st.lists(st.sampled_from([-math.inf, 0.0, 1.0, math.inf]), min_size=2, max_size=9), st.integers(2, 5))
def test_infinite_scores_never_make_a_cutoff_that_nobody_reaches(scores: list[float], reduction: int) -> None:
    least = cutoff(sorted(scores), reduction)
    assert least is not None
    assert max(scores) >= least


# Admission.


def test_the_published_case_of_a_fair_chance() -> None:
    assert fair_seconds(500, 40, reduction=4, max_steps=200, step_seconds=20) == 1840
    assert fair_seconds(5000, 40, reduction=4, max_steps=200, step_seconds=20) == 4000, "at most all of R"


class Ticking(Scripted):
    """A study with a deadline, on workers that train one step a second, each its own trial."""

    seconds = math.inf
    step: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.now = 0.0
        self.clock = lambda: Timing(self.now, self.seconds - self.now, self.step, 0.0)

    def _hear(self):  # type: ignore[no-untyped-def]
        result = super()._hear()
        self.now += 1.0 / self.workers
        return result


def race(score: Score, seconds: float, tuner: HyperSched, kind: type[Ticking] = Ticking) -> Ticking:
    """Run until the time is up, or the tuner ends."""

    class Out(Exception):
        pass

    class Ending(kind):  # type: ignore[misc, valid-type]
        def _hear(self):  # type: ignore[no-untyped-def]
            if self.now >= self.seconds:
                raise Out
            return super()._hear()

    done = Ending(score, workers=2)
    done.seconds = seconds
    with suppress(Out):
        asyncio.run(tuner.run(done))
    return done


def test_newcomers_start_while_there_is_time_for_them_to_catch_up() -> None:
    tuner = HyperSched(numbered(99), "score", "max", 1, 64, 2)
    short, long = (race(by_number(lambda n, step: step - n), seconds, tuner) for seconds in (8.0, 400.0))
    assert 2 <= len(short.trials) < len(long.trials) == 99
    last = max(at for at, (kind, _, step) in enumerate(short.log) if kind == "ask" and step == 1)
    assert all(kind != "ask" or step > 1 for kind, _, step in short.log[last + 1 :])
    assert short.now >= 8.0, "the rest of the time goes to those that run, or paused"


def test_a_newcomer_that_shares_its_way_needs_time_only_for_the_rest() -> None:
    class Known(Ticking):
        def unshared(self, config: Config, step: int) -> int:
            return 0

    tuner = HyperSched(numbered(99), "score", "max", 1, 64, 2)
    score = by_number(lambda n, step: step - n)
    assert len(race(score, 30.0, tuner, Known).trials) > len(race(score, 30.0, tuner).trials)


def test_before_anything_is_known_everybody_is_admitted() -> None:
    class Unknown(Ticking):
        step = None

    tuner = HyperSched(numbered(9), "score", "max", 1, 64, 2)
    assert len(race(by_number(lambda n, step: -n), 60.0, tuner, Unknown).trials) == 9


# Allocation.


def test_the_published_case_of_free_workers() -> None:
    scores = [0.9, 0.8, 0.1]
    assert [allocate(kind, scores, 8) for kind in KINDS] == [[3, 3, 2], [6, 1, 1], [5, 2, 1]]


@given(
    st.sampled_from(KINDS),
    st.lists(st.floats(-100, 100) | st.sampled_from([-math.inf, math.inf]), max_size=12, unique=True),
    st.integers(0, 20),
    st.randoms(use_true_random=False),
)
def test_workers_are_shared_out_by_score(
    kind: str, scores: list[float], workers: int, order: random.Random
) -> None:
    given_out = allocate(kind, scores, workers)  # type: ignore[arg-type]
    assert sum(given_out) == (workers if scores else 0)
    assert min(given_out, default=0) >= (1 if workers >= len(scores) else 0) or not scores
    best_first = sorted(range(len(scores)), key=lambda each: -scores[each])
    counts = [given_out[index] for index in best_first]
    assert counts == sorted(counts, reverse=True), "nobody has more than a better one"
    places = list(range(len(scores)))
    order.shuffle(places)
    shuffled = allocate(kind, [scores[place] for place in places], workers)  # type: ignore[arg-type]
    assert shuffled == [given_out[place] for place in places], "the order of trials does not matter"


@given(
    st.sampled_from(KINDS),
    st.lists(st.floats(-100, 100), min_size=1, max_size=8),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_a_policy_gives_what_one_cannot_use_to_the_next(
    kind: str, scores: list[float], slots: int, most: int
) -> None:
    work = [Contender(10.0, WAITS, ladder(1, most), score) for score in scores]
    widths = Allocation(kind).widths(work, slots, speed=lambda width: width)  # type: ignore[arg-type]
    assert all(0 <= width <= most for width in widths)
    assert sum(widths) == min(slots, most * len(scores))


def test_nobody_gets_workers_that_make_it_no_faster() -> None:
    work = [Contender(10.0, WAITS, ladder(1, 8), score) for score in (0.9, 0.8)]
    widths = Allocation("top").widths(work, 8, speed=lambda width: min(width, 3))
    assert widths == [3, 3]


def test_growing_has_to_pay_for_its_start() -> None:
    assert not growth_pays(RESNET50[1], RESNET50[2], left=145, restart=60)
    assert growth_pays(RESNET50[1], RESNET50[2], left=147, restart=60)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"kind is 'best'; expected one of 'uniform', 'top', 'softmax'"):
        HyperSched(numbered(3), "score", "max", 1, 9, allocation="best")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="every"):
        HyperSched(numbered(3), "score", "max", 1, 9, every=0)
    with pytest.raises(InvalidInput, match="max_width"):
        HyperSched(numbered(3), "score", "max", 1, 9, max_width=0)


# The race.


def test_without_a_deadline_all_start_and_few_go_to_the_end() -> None:
    tuner = HyperSched(numbered(64), "score", "max", 1, 64, 4)
    reached = tune(tuner, by_number(lambda n, step: n * 37 % 64 + step), workers=4).reached()
    assert len(reached) == 64
    assert next(step for n, step in reached.items() if n * 37 % 64 == 63) == 64
    assert sum(step == 64 for step in reached.values()) < 8
    assert sum(reached.values()) < 64 * 64 / 4


def test_a_trial_pauses_and_goes_on_when_others_turn_out_worse() -> None:
    scores = [0.5, 0.6, 0.7, 0.8, 0.74, 0.1, 0.1, 0.1, 0.1]
    done = tune(HyperSched(numbered(9), "score", "max", 2, 8, 4), by_number(lambda n, step: scores[n]), 5)
    assert done.reached()[3] == 8
    assert done.reached()[2] == 8, "0.7 is among the best quarter again"
    assert done.reached()[0] < 8


def test_one_way_or_the_other_the_best_goes_on() -> None:
    up = tune(HyperSched(numbered(16), "score", "max", 1, 16, 4), by_number(lambda n, step: n), workers=3)
    down = tune(HyperSched(numbered(16), "score", "min", 1, 16, 4), by_number(lambda n, step: -n), workers=3)
    assert up.log == down.log
    assert up.reached()[15] == 16


def test_failures_and_nan_never_go_on() -> None:
    def table(n: int, step: int) -> float | None:
        return (None, math.nan, float(n))[n % 3]

    done = tune(HyperSched(numbered(12), "score", "max", 1, 16, 4), by_number(table), workers=2)
    assert {n: step for n, step in done.reached().items() if n % 3 < 2} == dict.fromkeys((1, 4, 7, 10), 1)
    assert done.reached()[11] == 16


def test_trials_that_run_are_rated_by_their_scores() -> None:
    done = tune(HyperSched(numbered(4), "score", "min", 1, 4, 2), by_number(lambda n, step: n + step), 2)
    assert done.worths[done.trials[0]] == -3.0, "where less is better, less is worth more"


@given(st.integers(1, 6), st.randoms(use_true_random=False))
def test_trials_that_agree_so_far_take_one_worker(workers: int, order: random.Random) -> None:
    rates = [0.1, *(Piecewise([0.1, 0.01 * n], [4 * n]) for n in (1, 2, 3))]
    tuner = HyperSched({"lr": rates, "n": [1, 2, 3]}, "score", "max", 2, 16, 2)
    value = {n: order.random() for n in range(50)}

    def score(config: Config, step: int) -> float:
        way = sum(float(config["lr"].value(at)) for at in range(step))
        return step + value[int(config["n"].value(0))] + way

    shared = Sharing(score, workers=workers, pick=lambda running: 0)
    asyncio.run(tuner.run(shared))  # which insists that no more is under way than there are workers
    assert max(shared.reached().values()) == 16


@pytest.mark.parametrize(("widest", "least"), [(1, 8), (2, 4), (8, 1)])
def test_workers_that_running_trials_cannot_use_go_to_the_best_that_paused(widest: int, least: int) -> None:
    """With a deadline; as many trials as can use all workers."""
    executor = Simulated(
        workers=8,
        seconds_per_step=10.0,
        metrics=lambda config, step: {"score": float(config["n"].value(0)) + step / 1000},
    )
    tuner = HyperSched(numbered(20), "score", "max", 5, 1000, 4, max_width=widest)
    with Study("narrow", Widening, executor=executor) as study:
        report = study.tune(tuner, deadline=1000, progress=False)
    late = [span for span in report._trace.spans if span.began <= 800 < span.ended and span.kind == "train"]
    assert sum(span.width for span in late) == 8
    assert len(late) >= least


class Widening(Idle):
    widens = True
