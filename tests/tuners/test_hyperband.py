import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.spaces import Uniform
from hippotune.tuners import Hyperband
from hippotune.tuners.hyperband import brackets
from tuners.plain_algorithms import plain_halving
from tuners.scripted import by_number, numbered, tune


def test_the_brackets_for_81_steps_and_a_reduction_of_3_are_those_of_the_paper():
    assert brackets(1, 81, 3) == [
        [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)],
        [(34, 3), (11, 9), (3, 27), (1, 81)],
        [(15, 9), (5, 27), (1, 81)],
        [(8, 27), (2, 81)],
        [(5, 81)],
    ]


@given(st.integers(1, 50), st.integers(1, 400), st.integers(2, 5))
def test_every_bracket_ends_at_max_steps_and_begins_at_min_steps_or_later(first, more, reduction):
    last = first + more
    s_max = math.floor(math.log(last / first) / math.log(reduction) + 1e-9)
    table = brackets(first, last, reduction)
    assert [len(rungs) for rungs in table] == list(range(s_max + 1, 0, -1))
    for s, rungs in zip(range(s_max, -1, -1), table, strict=True):
        n = math.ceil((s_max + 1) * reduction**s / (s + 1))
        assert rungs == [(n // reduction**i, last // reduction ** (s - i)) for i in range(s + 1)]
        assert rungs[-1][1] == last
        assert rungs[0][1] >= first


@pytest.mark.parametrize("mode", ["max", "min"])
def test_each_bracket_is_a_successive_halving_of_its_own(mode):
    tuner = Hyperband({"x": Uniform(0, 1)}, "score", mode, min_steps=1, max_steps=81, reduction=3, seed=5)
    done = tune(tuner, lambda config, step: float(config["x"].value(0)) * step, workers=7)
    first = 0
    for rungs in brackets(1, 81, 3):
        n = rungs[0][0]
        own = done.trials[first : first + n]
        scores = {
            (place, step): float(trial.config["x"].value(0)) * step
            for place, trial in enumerate(own)
            for _, step in rungs
        }
        goal = plain_halving(scores, [step for _, step in rungs], [size for size, _ in rungs], mode)
        assert {trial.number - first: done.reached()[trial.number] for trial in own} == goal
        first += n
    assert first == len(done.trials) == 81 + 34 + 15 + 8 + 5


def test_all_brackets_are_submitted_together_and_draw_different_configs():
    tuner = Hyperband(
        {"x": Uniform(0, 1)}, "score", "max", min_steps=1, max_steps=9, reduction=3, iterations=2
    )
    done = tune(tuner, lambda config, step: 0.0)
    assert len(done.groups[0].asks) == 2 * (9 + 5 + 3) == len({trial.config for trial in done.trials})


def test_a_bracket_takes_a_small_grid_whole():
    done = tune(Hyperband(numbered(6), "score", "max", 1, 9, 3), by_number(lambda n, step: float(n)))
    started = Counter(asked[0] for asked in done.asked().values())
    assert started == {1: 6, 3: 5, 9: 3}
    assert max(Counter(trial.config for trial in done.trials[:6]).values()) == 1
