"""What would raise sharing is found, with the rate that it gives, and nothing that would take trials away."""

from __future__ import annotations

from hippotune.sequences import (
    WSD,
    Config,
    Cosine,
    Linear,
    MultiStep,
    Piecewise,
    Polynomial,
    Sequence,
    Warmup,
)
from hippotune.spaces.advice import Advice, advise
from hippotune.spaces.sharing import merge_rate

HORIZONS = [1_000, 2_000, 4_000, 8_000, 16_000]


def of(*schedules: Sequence, steps: int = 100) -> list[Advice]:
    return advise([(Config({"lr": schedule}), steps) for schedule in schedules])


def test_decays_from_the_end_are_advised_in_place_of_horizons() -> None:
    asks = [(Config({"lr": Warmup(100, Cosine(0.1, steps - 100))}), steps) for steps in HORIZONS]
    wsd = [Config({"lr": WSD(0.1, steps, 100, shape="cosine")}) for steps in HORIZONS]
    (advice,) = advise(asks)
    assert advice.merge_rate == merge_rate(wsd, HORIZONS)
    assert advice.text.startswith("lr: a WSD that decays in its last tenth, not at once")
    assert advice.text.endswith("(now until 1,000, 2,000, 4,000, 8,000, …)")


def test_shapes_that_decay_at_once_are_told_apart_at_the_end() -> None:
    (advice,) = of(Cosine(0.1, 100), Linear(0.1, 0, 100), Polynomial(0.1, 100, power=2))
    assert advice.merge_rate == 300 / (91 + 3 * 9)


def test_equal_warm_ups_are_advised() -> None:
    advice = of(Warmup(10, MultiStep(0.1, [60])), Warmup(20, MultiStep(0.1, [60, 70])), WSD(0.1, 100, 5))
    assert advice[0].text == "lr: a warm-up of 20 steps for all (now 5, 10, 20)"
    common = [Warmup(20, MultiStep(0.1, [60])), Warmup(20, MultiStep(0.1, [60, 70])), WSD(0.1, 100, 20)]
    assert advice[0].merge_rate == merge_rate([Config({"lr": each}) for each in common], 100)


def test_a_warm_up_before_a_branch_counts() -> None:
    branches = [Config({"lr": Warmup(up, 0.1)}).branch(80, lr=later) for up, later in ((5, 0.2), (9, 0.3))]
    (advice,) = advise([(branch, 100) for branch in branches])
    assert advice == ("lr: a warm-up of 9 steps for all (now 5, 9)", 200 / 120)


def test_common_milestones_are_advised() -> None:
    configs = [
        Config({"lr": lr, "bs": bs})
        for lr in (Warmup(10, 0.1), Warmup(10, MultiStep(0.1, [70])))
        for bs in (32, Piecewise([32, 64], [40]))
    ]
    (advice,) = advise([(config, 100) for config in configs])
    assert advice == ("bs, lr: changes at common steps, 80 (now 40, 80)", 400 / (80 + 4 * 20))


def test_what_would_make_trials_equal_is_not_advised() -> None:
    assert of(Warmup(10, 0.1), Warmup(20, 0.1)) == []
    assert of(MultiStep(0.1, [30]), MultiStep(0.1, [60])) == []
    assert of(Cosine(0.1, 100), Cosine(0.1, 100, end=0.0)) == []


def test_what_changes_little_is_not_advised() -> None:
    assert of(MultiStep(0.1, [98], 0.1), MultiStep(0.1, [99], 0.5)) == []
