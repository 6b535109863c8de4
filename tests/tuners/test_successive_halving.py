import math
import random

from hypothesis import given
from hypothesis import strategies as st

from hippotune.sequences import Config
from hippotune.tuners import EarlyStop, SuccessiveHalving
from hippotune.tuners.base import Trial
from hippotune.tuners.bracket import Bracket
from tuners.plain_algorithms import Scores, plain_halving, worth
from tuners.scripted import by_number, numbered, tune

values = st.one_of(
    st.integers(0, 5).map(float), st.just(math.nan), st.none(), st.just(math.inf), st.just(-math.inf)
)


@st.composite
def studies(draw: st.DrawFn) -> tuple[int, int, int, int, Scores]:
    trials = draw(st.integers(1, 20))
    reduction = draw(st.integers(2, 4))
    first = draw(st.integers(1, 4))
    last = draw(st.integers(first, 50))
    steps = [step for step in (first * reduction**rung for rung in range(7)) if step < last] + [last]
    scores = {(trial, step): draw(values) for trial in range(trials) for step in steps}
    return trials, reduction, first, last, scores


@given(studies(), st.sampled_from(["max", "min"]), st.integers(1, 8), st.randoms(use_true_random=False))
def test_the_same_trials_go_on_as_if_everybody_waited_whatever_the_order_of_finish(
    study, mode, workers, order
):
    trials, reduction, first, last, scores = study
    tuner = SuccessiveHalving(numbered(trials), "score", mode, first, last, reduction)
    done = tune(tuner, by_number(lambda n, step: scores[n, step]), workers, order.randrange)
    steps = sorted({step for _, step in scores})
    sizes = [max(math.floor(trials / reduction**rung), 1) for rung in range(len(steps))]
    assert {trial: asked[-1] for trial, asked in done.asked().items()} == plain_halving(
        scores, steps, sizes, mode
    )


@given(studies(), st.integers(1, 8), st.randoms(use_true_random=False))
def test_whoever_is_certain_to_go_on_goes_on_at_once_and_nobody_else_does(study, workers, order):
    trials, reduction, first, last, scores = study
    tuner = SuccessiveHalving(numbered(trials), "score", "max", first, last, reduction)
    done = tune(tuner, by_number(lambda n, step: scores[n, step]), workers, order.randrange)
    steps = sorted({step for _, step in scores})
    quotas = [max(trials // reduction ** (rung + 1), 1) for rung in range(len(steps) - 1)]
    bottom = {}  # what was heard at the bottom rung, where the number of trials is known to everybody
    log = [*done.log, ("end", 0, 0)]
    at_bottom = set(range(trials))
    for (kind, trial, _), following in zip(log, range(1, len(log)), strict=False):
        if kind not in ("hear", "fail") or trial not in at_bottom or not quotas:
            continue
        at_bottom.remove(trial)
        bottom[trial] = worth(scores[trial, steps[0]], "max")
        unheard = trials - len(bottom)
        certain = {
            one
            for one, score in bottom.items()
            if score > -math.inf
            and unheard + sum((other, -rival) > (score, -one) for rival, other in bottom.items()) < quotas[0]
        }
        later = following
        while log[later][0] == "ask":
            later += 1
        gone_on = {who for what, who, step in log[:later] if what == "ask" and step == steps[1]}
        assert gone_on == certain


def test_of_nine_of_which_three_go_on_the_best_go_on_with_the_seventh_eighth_and_ninth_result():
    order_of_finish = [5.0, 1.0, 7.0, 3.0, 9.0, 2.0, 6.0, 8.0, 4.0]
    bracket = Bracket([1, 3], [9, 3])
    promoted = []
    for number, score in enumerate(order_of_finish):
        asks = bracket.report(Trial(number, Config({})), score, number)
        promoted.append([order_of_finish[trial.number] for trial, _ in asks])
    assert promoted == [[], [], [], [], [], [], [9.0], [8.0], [7.0]]


def test_failures_make_others_certain_earlier():
    bracket = Bracket([1, 3], [4, 2])

    def report(number: int, score: float) -> list[int]:
        return [trial.number for trial, _ in bracket.report(Trial(number, Config({})), score, number)]

    assert report(0, -math.inf) == []
    assert report(1, 1.0) == []
    assert report(2, -math.inf) == [1]  # one is still to come, and there is room for both
    assert report(3, 0.5) == [3]


def test_the_study_of_the_paper_has_three_rungs():
    tuner = SuccessiveHalving(
        numbered(448), metric="score", mode="max", min_steps=15, max_steps=120, reduction=4
    )
    done = tune(tuner, by_number(lambda n, step: float(n)), workers=40)
    reached = list(done.reached().values())
    assert [reached.count(step) for step in (15, 60, 120)] == [448 - 112, 112 - 28, 28]
    assert all(done.reached()[number] == 120 for number in range(420, 448))


def test_everything_is_submitted_in_one_group_and_foreseen_to_the_end():
    done = tune(SuccessiveHalving(numbered(8), "score", "max", 1, 9, 3), by_number(lambda n, step: float(n)))
    assert len(done.groups[0].asks) == 8
    [(configs, step)] = done.foreseen
    assert len(configs) == 8
    assert step == 9


def test_early_stopping_trains_eight_trials_to_step_five_and_the_best_four_to_ten():
    scores = [3.0, 8.0, 1.0, 7.0, 2.0, 6.0, 4.0, 5.0]
    tuner = EarlyStop(numbered(8), "score", "max", milestones=[5, 10], keep=[4])
    done = tune(tuner, by_number(lambda n, step: scores[n]))
    assert done.reached() == {0: 5, 1: 10, 2: 5, 3: 10, 4: 5, 5: 10, 6: 5, 7: 10}
    done = tune(
        EarlyStop(numbered(8), "score", "min", milestones=[5, 10], keep=[4]),
        by_number(lambda n, step: scores[n]),
    )
    assert done.reached() == {0: 10, 1: 5, 2: 10, 3: 5, 4: 10, 5: 5, 6: 10, 7: 5}


@given(st.integers(4, 12), st.integers(1, 6), st.randoms(use_true_random=False))
def test_early_stopping_is_halving_with_milestones_and_numbers_of_ones_own(trials, workers, order):
    chance = random.Random(trials)
    steps, keep = [2, 3, 11], [3, 2]
    scores = {(trial, step): float(chance.randrange(4)) for trial in range(trials) for step in steps}
    tuner = EarlyStop(numbered(trials), "score", "max", steps, keep)
    done = tune(tuner, by_number(lambda n, step: scores[n, step]), workers, order.randrange)
    goal = plain_halving(scores, steps, [trials, *keep], "max")
    assert {trial: asked[-1] for trial, asked in done.asked().items()} == goal
