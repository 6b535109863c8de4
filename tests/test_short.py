import pytest

from hippotune import short
from hippotune.sequences import Config, Constant, Cosine, MultiStep, Piecewise, Warmup
from hippotune.view.contrast import Contrast


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (-1, "0 s"),
        (0.4, "0 s"),
        (59.9, "59 s"),
        (60, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3600, "1 h 00 min"),
        (7625, "2 h 07 min"),
        (275_000, "3 d 04 h"),
    ],
)
def test_a_duration_is_written_in_its_two_largest_units(seconds: float, written: str) -> None:
    assert short.duration(seconds) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "1 s"), (50, "50 s"), (179, "179 s"), (240, "4 min"), (12_000, "3 h"), (500_000, "6 d")],
)
def test_an_estimate_is_written_in_one_unit(seconds: float, written: str) -> None:
    assert short.roughly(seconds) == written


def test_one_step_is_not_one_steps() -> None:
    assert [short.plural(count, "step") for count in (0, 1, 12_345)] == ["0 steps", "1 step", "12,345 steps"]


def test_what_is_in_force_is_a_value_where_it_stays_the_same() -> None:
    steps = MultiStep(0.1, [60, 90], 0.1)
    assert short.in_force(steps, 0, 60) == "0.1"
    assert short.in_force(steps, 60, 90) == "0.01"
    assert short.in_force(Piecewise(["sgd", "adam"], [5]), 5, 9) == "adam"
    assert short.in_force(Piecewise([0.1, 0.1], [5]), 0, 9) == "0.1"


def test_what_is_in_force_is_the_innermost_sequence_where_the_value_changes() -> None:
    warmup = Warmup(5, Cosine(0.1, 115))
    assert short.in_force(warmup, 5, 120) == "Cosine(0.1, 115)"
    assert short.in_force(warmup, 0, 5) == "Warmup(5, Cosine(0.1, 115))"
    assert short.in_force(warmup, 0, 120) == "Warmup(5, Cosine(0.1, 115))"
    chain = Cosine(0.1, 10).then(Cosine(0.2, 20), at=10)
    assert short.in_force(chain, 10, 30) == "Cosine(0.2, 20)"
    assert short.in_force(chain, 0, 30) == repr(chain)


def test_a_small_config_is_shown_whole_with_what_differs_between_trials_first() -> None:
    contrast = Contrast()
    first, second = (
        Config({"a": 1, "b": 2, "c": Cosine(0.1, 10)}),
        Config({"a": 1, "b": 3, "c": Cosine(0.1, 10)}),
    )
    assert contrast.names(first) == ["c", "a", "b"], "nothing is known to differ yet"
    contrast.meet(first)
    contrast.meet(second)
    assert contrast.names(first) == ["b", "c", "a"]


def test_of_a_large_config_only_what_differs_or_changes_is_shown() -> None:
    contrast = Contrast()
    shared = {"a": 1, "b": 2, "c": 3, "d": 4}
    first = Config({**shared, "lr": Constant(0.1)})
    contrast.meet(first)
    assert contrast.names(first) == ["a", "b", "c", "d", "lr"], "nothing is known to differ yet"
    contrast.meet(Config({**shared, "lr": Cosine(0.1, 10)}))
    assert contrast.names(first) == ["lr"]
    contrast.meet(Config({**shared, "lr": Constant(0.1), "momentum": 0.9}))
    assert contrast.names(Config({**shared, "lr": 0.3, "momentum": 0.9})) == ["lr", "momentum"]
    assert contrast.names(Config({**shared, "d": Cosine(0.1, 10), "lr": 0.3})) == ["lr", "d"]


@pytest.mark.parametrize(
    ("count", "written"),
    [
        (0, "0 B"),
        (812, "812 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_949, "9.9 kB"),
        (9_960, "10 kB"),
        (999_400, "999 kB"),
        (999_600, "1.0 MB"),
        (34_000_000_000, "34 GB"),
        (10**18, "1000 PB"),
    ],
)
def test_a_size_keeps_two_or_three_digits(count: int, written: str) -> None:
    assert short.size(count) == written
