from hypothesis import given
from hypothesis import strategies as st

from hippotune.plan.plan import Plan, unique_steps
from hippotune.sequences import (
    Config,
    Constant,
    Cosine,
    CosineRestarts,
    Cyclic,
    Exponential,
    MultiStep,
    Piecewise,
    Warmup,
)
from hippotune.spaces import Grid, Option, Samples, Uniform
from hippotune.spaces.sharing import merge_rate, outcome, sharing

STEPS = 12

sequences = st.one_of(
    st.builds(Constant, st.sampled_from([0.1, 0.2])),
    st.builds(MultiStep, st.just(0.1), st.sampled_from([[4], [4, 8], [8]]), st.sampled_from([0.1, 0.5])),
    st.builds(lambda at: Piecewise([0.1, 0.01], [at]), st.integers(1, STEPS)),
    st.builds(Exponential, st.just(0.1), st.sampled_from([1.0, 0.95])),
    st.builds(lambda steps: Warmup(3, Cosine(0.1, steps)), st.sampled_from([9, 20])),
    st.builds(lambda period: CosineRestarts(0.1, period), st.sampled_from([4, 6, 20])),
    st.just(Cyclic(0.0, 0.1, 3)),
)
configs = st.one_of(
    st.builds(lambda lr, bs: Config({"lr": lr, "bs": bs}), sequences, sequences),
    st.builds(lambda lr: Config({"lr": lr, "optimizer": "adam"}), sequences),
    st.builds(lambda lr, m: Config({"lr": lr, "optimizer": "sgd", "momentum": m}), sequences, sequences),
)


def unique_by_counting(configs: list[Config], steps: int) -> int:
    """Step by step: trials share a step if all of their values up to it are equal."""
    return sum(
        len(
            {
                tuple(tuple(sorted(config.values(step).items())) for step in range(last + 1))
                for config in configs
            }
        )
        for last in range(steps)
    )


@given(st.lists(configs, min_size=1, max_size=12), st.integers(1, STEPS))
def test_the_merge_rate_is_that_of_counting_every_step(configs, steps):
    assert merge_rate(configs, steps) == len(configs) * steps / unique_by_counting(configs, steps)


@given(st.lists(configs, min_size=1, max_size=12), st.integers(1, STEPS))
def test_the_merge_rate_is_that_of_a_plan(configs, steps):
    plan = Plan()
    unique = unique_steps((plan.place(config, steps)[0], steps) for config in configs)
    assert merge_rate(configs, steps) == len(configs) * steps / unique


@given(st.lists(st.tuples(configs, st.integers(1, STEPS)), min_size=1, max_size=12))
def test_trials_of_different_lengths_share_as_in_a_plan(asks):
    plan = Plan()
    placed = [(plan.place(config, length)[0], length) for config, length in asks]
    total = sum(length for _, length in asks)
    found = outcome(*map(list, zip(*asks, strict=True)))
    assert found.merge_rate == total / unique_steps(placed)
    passed = {
        (length, tuple(tuple(sorted(config.values(step).items())) for step in range(length)))
        for config, length in asks
    }
    assert found.distinct == len(passed)


@given(st.lists(configs, min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_configs_does_not_matter(configs, order):
    shuffled = order.sample(configs, len(configs))
    assert merge_rate(configs, STEPS) == merge_rate(shuffled, STEPS)
    assert sharing(configs, STEPS) == sharing(shuffled, STEPS)


@given(st.lists(configs, min_size=1, max_size=8))
def test_sharing_is_the_merge_rate_without_a_hyper_parameter(configs):
    rates = sharing(configs, STEPS)
    assert set(rates) == {name for config in configs for name in config}
    assert list(rates.values()) == sorted(rates.values(), reverse=True)
    for name, rate in rates.items():
        without = [Config({other: config[other] for other in config if other != name}) for config in configs]
        assert rate == len(configs) * STEPS / unique_by_counting(without, STEPS)
        assert rate >= merge_rate(configs, STEPS)


def test_identical_trials_have_a_merge_rate_of_their_number():
    assert merge_rate([Config({"lr": 0.1})] * 7, 100) == 7


def test_four_trials_that_begin_alike():
    """Trial 1 stays at 0.1 for 200 of 300 steps, the others for 100: one stage under all four."""
    lrs = [Piecewise([0.1, 0.01], [200]), *(Piecewise([0.1, later], [100]) for later in (0.05, 0.02, 0.01))]
    assert Grid({"lr": lrs}).merge_rate(300) == 1200 / (300 + 3 * 200)
    fifth = Piecewise([0.1, 0.05], [150])
    assert Grid({"lr": [*lrs, fifth]}).merge_rate(300) == 1500 / (300 + 3 * 200 + 150)


def test_spaces_tell_what_costs_the_most_sharing():
    grid = Grid(
        {
            "lr": [MultiStep(0.1, [90], 0.1), MultiStep(0.1, [80], 0.1)],
            "wd": [1e-3, 1e-4],
            "bs": 128,
        }
    )
    assert grid.merge_rate(100) == 400 / (2 * (100 + 20))
    assert list(grid.sharing(100)) == ["wd", "lr", "bs"]
    assert grid.sharing(100) == {"wd": 400 / 120, "lr": 2.0, "bs": 400 / 240}


def test_samples_and_conditional_spaces_have_a_merge_rate_too():
    samples = Samples({"lr": Uniform(0, 1), "optimizer": ["adam", Option("sgd", {"momentum": [0.9]})]}, 16)
    assert samples.merge_rate(10) == 1.0
    assert samples.sharing(10)["lr"] == 8.0
