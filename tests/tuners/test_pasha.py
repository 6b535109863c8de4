import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hippotune.tuners import ASHA, PASHA
from tuners.plain_algorithms import Curves, check_promotions
from tuners.scripted import by_number, numbered, tune


class PlainPasha:
    """PASHA: after a result at the top rung, is the ranking of the top two rungs the same, up to ε?"""

    def __init__(self, steps: list[int]) -> None:
        self.steps, self.top, self.epsilon = steps, min(1, len(steps) - 1), 0.0
        self.at_top: dict[int, float] = {}

    def __call__(self, rungs: list[dict[int, float]], curves: Curves) -> int:
        scored = {trial: score for trial, score in rungs[self.top].items() if score > -math.inf}
        if self.top > 0 and scored != self.at_top:
            self.at_top = scored
            noise = [
                abs(scored[a] - scored[b])
                for a, b in itertools.combinations(scored, 2)
                if noisy(curves[a], curves[b])
            ]
            if noise:
                self.epsilon = float(np.percentile(noise, 90))
            if not self.consistent(rungs) and self.top + 1 < len(self.steps):
                self.top += 1
                self.at_top = {}
        return self.top

    def consistent(self, rungs: list[dict[int, float]]) -> bool:
        below = rungs[self.top - 1]
        now = sorted(self.at_top, key=lambda trial: (-self.at_top[trial], trial))
        before = sorted(self.at_top, key=lambda trial: (-below[trial], trial))
        for trial, place in zip(now, before, strict=True):
            equivalent = {other for other in before if abs(below[other] - below[place]) <= self.epsilon}
            if trial not in equivalent:
                return False
        return True


def noisy(one: dict[int, float], other: dict[int, float]) -> bool:
    """Whether at some j < k < last the two are in the order of the last step at j, and in the other at k."""
    common = sorted(one.keys() & other.keys())
    ahead = [np.sign(one[step] - other[step]) if one[step] != other[step] else 0 for step in common]
    return any(
        ahead[j] == ahead[-1] and ahead[k] == -ahead[-1] != 0
        for j, k in itertools.combinations(range(len(common) - 1), 2)
    )


@given(
    st.integers(2, 24), st.integers(2, 3), st.integers(1, 4), st.booleans(), st.randoms(use_true_random=False)
)
def test_rungs_are_opened_as_the_published_rule_says(trials, reduction, workers, failing, order):
    steps = [reduction**rung for rung in range(4)]
    scores = {
        (t, step): float(order.randrange(30)) for t in range(trials) for step in range(1, steps[-1] + 1)
    }
    if failing:
        scores |= dict.fromkeys(order.sample(sorted(scores), len(scores) // 10))
    tuner = PASHA(numbered(trials), "score", "max", 1, steps[-1], reduction)
    done = tune(tuner, by_number(lambda n, step: scores[n, step]), workers, order.randrange)
    check_promotions(done, steps, reduction, trials, workers, PlainPasha(steps))


def test_a_stable_ranking_stops_at_the_second_rung():
    done = tune(PASHA(numbered(64), "score", "max", 1, 64, 4), by_number(lambda n, step: float(n)), workers=4)
    assert max(done.reached().values()) == 4


def test_a_ranking_that_turns_over_is_followed_to_the_end_as_by_asha():
    def table(n: int, step: int) -> float:
        return float(n if int(math.log(step, 4)) % 2 else -n)

    done = tune(PASHA(numbered(64), "score", "max", 1, 64, 4), by_number(table), workers=4)
    assert max(done.reached().values()) == 64


def test_with_two_rungs_it_is_asha():
    scores = by_number(lambda n, step: float((n * 7 + step) % 11))
    pasha = tune(PASHA(numbered(20), "score", "max", 1, 3, 3, every=3), scores, workers=3)
    asha = tune(ASHA(numbered(20), "score", "max", 1, 3, 3), scores, workers=3)
    assert pasha.log == asha.log
