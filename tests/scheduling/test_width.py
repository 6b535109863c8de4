"""The rule that shares devices out: the published cases, and the laws that hold for any of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippotune.scheduling.width import Capacity, Ladder, Time, fitted, ladder, share, spread
from scheduling.shares import linear, needed, widths

HALF = Fraction(1, 2)


def by_formula(times: Sequence[Time], devices: int, packing: int, max_width: int) -> list[Fraction]:
    """Return min(max(floor(h·n / Σh), 1/c), d), as it is published."""
    total = sum(times)
    portions = [Fraction(time) * devices // Fraction(total) for time in times]
    return [min(max(Fraction(portion), Fraction(1, packing)), Fraction(max_width)) for portion in portions]


def run(times: Sequence[Time], devices: int, packing: int, max_width: int) -> list[Fraction]:
    """Train everything, with new widths whenever something ends; return when each ends."""
    left = {place: Fraction(time) for place, time in enumerate(times)}
    ends: dict[int, Fraction] = {}
    now = Fraction(0)
    while left:
        chosen = dict(zip(left, widths(list(left.values()), devices, packing, max_width), strict=True))
        wait = min(left[place] / width for place, width in chosen.items() if width)
        now += wait
        for place, width in chosen.items():
            left[place] -= width * wait
            if not left[place]:
                ends[place] = now
                del left[place]
    return [ends[place] for place in sorted(ends)]


# Devices, packing, max_width; the published formula; completed.
CASES: list[tuple[list[Time], tuple[int, int, int], list[Time], list[Time]]] = [
    ([40, 10, 10, 10], (5, 2, 4), [2, HALF, HALF, HALF], [3, 1, HALF, HALF]),
    ([10] * 4, (4, 2, 4), [1] * 4, [1] * 4),
    ([10, 10], (8, 2, 4), [4, 4], [4, 4]),
    # The first has all that it can have, and nothing is idle while the second can use it.
    ([90, 10], (8, 2, 4), [4, HALF], [4, 4]),
    ([10] * 8, (4, 2, 4), [HALF] * 8, [HALF] * 8),
    ([10] * 12, (4, 2, 4), [HALF] * 12, [HALF] * 8 + [0] * 4),
    ([30, 20, 10, 5, 5], (7, 2, 4), [3, 2, 1, HALF, HALF], [3, 2, 1, HALF, HALF]),
    ([33, 33, 33], (8, 2, 4), [2, 2, 2], [3, 3, 2]),
    ([1] * 49, (49, 2, 4), [1] * 49, [1] * 49),
]


@pytest.mark.parametrize(("times", "limits", "formula", "completed"), CASES)
def test_the_published_cases(
    times: list[Time], limits: tuple[int, int, int], formula: list[Time], completed: list[Time]
) -> None:
    devices, packing, max_width = limits
    steps = ladder(packing, max_width)
    assert by_formula(times, *limits) == formula
    assert [share(time, sum(times), devices, steps) for time in times] == formula
    assert widths(times, *limits) == completed


@pytest.mark.parametrize(
    ("times", "limits", "makespan"),
    [
        ([40, 10, 10, 10], (5, 2, 4), Fraction(505, 36)),  # 14.03, of which 14 is work over devices
        ([10] * 4, (4, 2, 4), 10),
        ([10, 10], (8, 2, 4), Fraction(10, 4)),
        ([10] * 8, (4, 2, 4), 20),
        ([10] * 12, (4, 2, 4), 30),
        ([1] * 49, (49, 2, 4), 1),
    ],
)
def test_makespans_with_new_widths_at_every_end(
    times: list[Time], limits: tuple[int, int, int], makespan: Time
) -> None:
    assert max(run(times, *limits)) == makespan


def test_what_gets_just_its_share_ends_all_at_once() -> None:
    assert run([30, 20, 10, 5, 5], 7, 2, 4) == [10] * 5


def test_never_changing_a_width_takes_longer() -> None:
    times = [40, 10, 10, 10]
    still = max(Fraction(time) / width for time, width in zip(times, widths(times, 5, 2, 4), strict=True))
    assert still == 20


def test_shares_are_exact() -> None:
    assert share(Fraction(1, 49), 1, 49, ladder(1, 4)) == 1
    assert 1 / 49 * 49 < 1  # in floats, whose floor is 0
    assert widths([1 / 49] * 49, 49, packing=2) == [1] * 49
    assert widths([0.1] * 3, 3, packing=2) == [1] * 3


def test_work_that_takes_no_time_gets_the_least() -> None:
    assert widths([0, 0, 0], 2, packing=2) == [1, HALF, HALF]
    assert widths([], 4) == []


# Any times.

any_times = st.lists(st.integers(0, 1000), min_size=1, max_size=14)
many_devices = st.integers(1, 24)
packings = st.integers(1, 4)
most = st.integers(1, 9)


@given(any_times, many_devices, packings, most)
def test_widths_are_parts_of_one_device_or_whole_ones_within_the_limits(
    times: list[int], devices: int, packing: int, max_width: int
) -> None:
    chosen = widths(times, devices, packing, max_width)
    assert needed(chosen) <= devices
    for width in chosen:
        if width:
            assert Fraction(1, packing) <= width <= max_width
            assert width == Fraction(1, packing) if width < 1 else width.denominator == 1


@given(any_times, many_devices, packings, most)
def test_nothing_is_idle_while_something_can_use_it(
    times: list[int], devices: int, packing: int, max_width: int
) -> None:
    chosen = widths(times, devices, packing, max_width)
    steps = ladder(packing, max_width)
    for place, width in enumerate(chosen):
        for step in steps:
            if step > width:
                assert needed([*chosen[:place], step, *chosen[place + 1 :]]) > devices


@given(any_times, many_devices, packings, most)
def test_what_waits_is_no_longer_than_what_does_not(
    times: list[int], devices: int, packing: int, max_width: int
) -> None:
    chosen = widths(times, devices, packing, max_width)
    shortest = min(time for time, width in zip(times, chosen, strict=True) if width)
    assert all(time <= shortest for time, width in zip(times, chosen, strict=True) if not width)


@given(any_times, many_devices, packings, most)
def test_nobody_has_less_than_the_published_share_unless_it_waits(
    times: list[int], devices: int, packing: int, max_width: int
) -> None:
    steps = ladder(packing, max_width)
    for time, width in zip(times, widths(times, devices, packing, max_width), strict=True):
        assert width == 0 or width >= share(time, sum(times), devices, steps)


@given(any_times, many_devices, packings, most, st.randoms(use_true_random=False))
def test_permuting_work_permutes_widths(
    times: list[int], devices: int, packing: int, max_width: int, chance: random.Random
) -> None:
    order = list(range(len(times)))
    chance.shuffle(order)
    chosen = widths(times, devices, packing, max_width)
    permuted = widths([times[place] for place in order], devices, packing, max_width)
    if len(set(times)) == len(times):
        assert permuted == [chosen[place] for place in order]
    else:  # of equal ones, whichever comes first is first
        pairs = Counter(zip(times, chosen, strict=True))
        assert Counter(zip([times[place] for place in order], permuted, strict=True)) == pairs


@given(any_times, many_devices, packings, most, st.fractions(min_value=Fraction(1, 1000), max_value=1000))
def test_scaling_all_times_changes_nothing(
    times: list[int], devices: int, packing: int, max_width: int, factor: Fraction
) -> None:
    scaled = widths([time * factor for time in times], devices, packing, max_width)
    assert scaled == widths(times, devices, packing, max_width)


@given(any_times, many_devices, packings, most)
def test_planned_anew_at_every_end_work_is_not_far_from_the_bound(
    times: list[int], devices: int, packing: int, max_width: int
) -> None:
    times = [time for time in times if time]
    if not times:
        return
    makespan = max(run(times, devices, packing, max_width))
    work, longest = Fraction(sum(times), devices), Fraction(max(times), min(max_width, devices))
    assert max(work, longest) <= makespan <= 2 * work + max(times)


# Ladders of their own.

gapped = st.lists(
    st.sampled_from([Fraction(1, 2), *map(Fraction, range(1, 9))]), unique=True, max_size=5
).map(lambda steps: tuple(sorted({*steps, Fraction(1)})))


@given(st.lists(st.tuples(st.integers(0, 100), gapped), min_size=1, max_size=8), many_devices)
def test_everybody_stays_on_a_ladder_of_its_own(work: list[tuple[int, Ladder]], devices: int) -> None:
    times = [time for time, _ in work]
    ladders = [steps for _, steps in work]
    wanted = [share(time, sum(times), devices, steps) for time, steps in work]
    chosen = spread(times, fitted(times, wanted, devices), devices, ladders, linear)
    assert needed(chosen) <= devices
    for place, (width, steps) in enumerate(zip(chosen, ladders, strict=True)):
        assert width in (0, *steps)
        higher = [step for step in steps if step > width]
        if higher:  # the next step up has no room
            assert needed([*chosen[:place], higher[0], *chosen[place + 1 :]]) > devices


def test_a_width_that_does_not_fit_is_stepped_over() -> None:
    fits_128 = tuple(Fraction(width) for width in (1, 2, 4))  # 3 does not divide a batch of 128
    assert share(3, 4, 4, fits_128) == 2
    assert spread([9, 1], [Fraction(2), Fraction(1)], 4, [fits_128, fits_128], linear) == [2, 2]
    assert spread([9, 1], [Fraction(2), Fraction(1)], 5, [fits_128, fits_128], linear) == [4, 1]


def test_what_makes_nothing_faster_is_not_taken() -> None:
    speeds = {Fraction(1): 1.0, Fraction(2): 0.8, Fraction(3): 1.5}
    steps = ladder(1, 3)
    assert spread([10], [Fraction(1)], 3, [steps], speeds.__getitem__) == [1]


def test_what_is_left_over_goes_to_what_would_finish_last_by_measured_speed() -> None:
    one, two = Fraction(1), Fraction(2)
    steps = ladder(1, 2)
    assert spread([10, 11], [one, one], 3, [steps, steps], linear) == [one, two]
    assert spread([10, 15], [one, two], 4, [steps, steps], linear) == [two, two]
    slow = {one: 1.0, two: 1.1, Fraction(3): 2.0}
    longer = ladder(1, 3)
    assert spread([10, 15], [one, two], 4, [longer, longer], slow.__getitem__) == [one, 3]


@given(st.lists(st.sampled_from([Fraction(1, 3), Fraction(1), Fraction(2)]), max_size=12), many_devices)
def test_room_is_what_devices_leave(taken: list[Fraction], devices: int) -> None:
    capacity = Capacity(devices)
    given_out: list[Fraction] = []
    for width in taken:
        fits = needed([*given_out, width]) <= devices
        assert capacity.take(Fraction(0), width) == fits
        if fits:
            given_out.append(width)
