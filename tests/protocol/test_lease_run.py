"""The course of a lease, whoever drives it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hippotune.protocol.commands import RunLease, Segment, UpdateLease
from hippotune.protocol.lease_run import Action, LeaseRun
from hippotune.sequences import Config

CONFIG = Config({"lr": 0.1})


def lease(
    start: int, end: int, saves: Iterable[int] = (), evaluations: Iterable[int] = (), probe: bool = False
) -> RunLease:
    path = (Segment(0, start, end),)
    return RunLease(7, 0, CONFIG, start, end, path, frozenset(saves), frozenset(evaluations), probe=probe)


def update(end: int, saves: Iterable[int] = (), evaluations: Iterable[int] = ()) -> UpdateLease:
    return UpdateLease(7, 0, end, frozenset(saves), frozenset(evaluations))


def moves(run: LeaseRun) -> list[tuple[Action, int]]:
    """Let a run go to its end, a step at a time."""
    made: list[tuple[Action, int]] = []
    while not run.over:
        made.append((run.next(), run.at))
        run.done()
    return made


def test_it_evaluates_before_it_saves_and_finishes_last() -> None:
    assert moves(LeaseRun(lease(3, 5, saves=[4, 5], evaluations=[3, 5], probe=True))) == [
        ("start", 3),
        ("probe", 3),
        ("evaluate", 3),
        ("train", 3),
        ("save", 4),
        ("train", 4),
        ("evaluate", 5),
        ("save", 5),
        ("finish", 5),
    ]


def test_a_state_is_noted_before_and_after_a_probe_and_not_once_more_where_it_is_evaluated() -> None:
    run = LeaseRun(replace(lease(0, 1, evaluations=[0, 1], probe=True), fingerprints=frozenset({0, 1})))
    made = []
    while not run.over:
        made.append((run.next(), run.at, run.is_evaluated))
        run.done()
    assert made == [
        ("start", 0, False),
        ("fingerprint", 0, False),
        ("probe", 0, False),
        ("fingerprint", 0, True),
        ("evaluate", 0, False),
        ("train", 0, True),
        ("fingerprint", 1, False),
        ("evaluate", 1, False),
        ("fingerprint", 1, True),
        ("finish", 1, True),
    ]


def test_a_lease_that_an_update_stops_saves_where_it_stops() -> None:
    run = LeaseRun(lease(0, 9))
    for _ in range(3):  # start, and two steps
        run.next()
        run.done()
    assert run.update(update(end=1)) is None
    assert moves(run) == [("save", 2), ("finish", 2)]


def test_inside_a_step_its_end_is_the_next_chance_to_stop() -> None:
    run = LeaseRun(lease(0, 9, saves=[9]))
    run.next()
    run.done()
    assert run.next() == "train"
    missed = run.update(update(end=0, saves=[0, 9], evaluations=[0]))
    assert missed is not None
    assert (missed.evaluations, missed.saves) == ({0}, {0})
    run.done()
    assert moves(run) == [("save", 1), ("finish", 1)]


def test_training_that_has_not_begun_counts_for_nothing() -> None:
    run = LeaseRun(lease(0, 9))
    run.next()
    run.done()
    run.next()
    run.done(0)
    assert run.update(update(end=9, evaluations=[0])) is None
    assert run.next() == "evaluate"


def test_after_the_end_saves_that_will_not_come_are_missed_once() -> None:
    run = LeaseRun(lease(0, 3, saves=[3]))
    moves(run)
    missed = run.update(update(end=6, saves=[2, 3, 5], evaluations=[1]))
    assert missed is not None
    assert (missed.evaluations, missed.saves) == (frozenset(), {2})
    assert run.update(update(end=6, saves=[2, 3, 5])) is None


def test_what_is_out_of_reach_depends_on_what_failed() -> None:
    def failing(action: Action, start: int) -> int:
        run = LeaseRun(lease(start, 9, evaluations=[start], probe=True))
        while run.next() != action:
            run.done()
        return run.fail()

    assert [failing(action, 0) for action in ("start", "probe", "evaluate", "train")] == [1, 1, 0, 1]
    assert [failing(action, 4) for action in ("start", "probe", "evaluate", "train")] == [4, 4, 4, 5]


def test_a_peer_that_fails_to_evaluate_what_its_lead_has_reported_fails_the_next_step() -> None:
    run = LeaseRun(lease(0, 9, evaluations=[0]))
    while run.next() != "train":
        run.done()
    assert run.fail(0) == 1
    assert run.over


steps = st.integers(0, 12)
orders = st.builds(update, steps, st.frozensets(steps), st.frozensets(steps))


@given(
    st.integers(0, 3),
    st.integers(0, 9),
    st.frozensets(steps),
    st.frozensets(steps),
    st.lists(st.tuples(st.integers(0, 6), orders), max_size=6),
)
def test_everything_asked_for_ahead_is_done_once_and_what_lies_behind_is_said_to_be_missed(
    start: int,
    length: int,
    saves: frozenset[int],
    evaluations: frozenset[int],
    updates: list[tuple[int, UpdateLease]],
) -> None:
    run = LeaseRun(lease(start, start + length, saves, evaluations))
    done: list[tuple[Action, int]] = []
    stopped = False

    def go(count: int) -> None:
        for _ in range(count):
            if not run.over:
                done.append((run.next(), run.at))
                run.done()

    for count, latest in updates:
        go(count)
        if run.over:
            break
        at = run.at
        missed = run.update(latest)
        stopped = True
        behind = {step for step in latest.saves if step < at and ("save", step) not in done}
        assert (set() if missed is None else missed.saves) == behind
        behind = {step for step in latest.evaluations if step < at and ("evaluate", step) not in done}
        assert (set() if missed is None else missed.evaluations) == behind
        assert run.end >= at
    asked = (run.saves, run.evaluations)
    over = run.over
    go(200)
    assert run.over
    assert run.at == run.end or over
    assert len(set(done)) == len(done), "nothing is done twice"
    trained = [at for action, at in done if action == "train"]
    assert trained == list(range(start, run.at))
    for action, wanted in zip(("save", "evaluate"), asked, strict=True):
        here = [at for kind, at in done if kind == action]
        assert here == sorted(here)
        if not over:
            last = at if stopped else start
            assert {at for at in wanted if last <= at <= run.at} <= set(here)
    if stopped and not over and run.at > start:
        assert ("save", run.at) in done


@given(st.frozensets(steps, min_size=1), st.frozensets(steps))
def test_going_from_stop_to_stop_does_the_same_as_going_step_by_step(
    saves: frozenset[int], evaluations: frozenset[int]
) -> None:
    whole = lease(0, 12, saves, evaluations)
    run, made = LeaseRun(whole), []
    while not run.over:
        action = run.next()
        if action == "train":
            run.done(run.next_stop() - run.at)
        else:
            made.append((action, run.at))
            run.done()
    assert made == [move for move in moves(LeaseRun(whole)) if move[0] != "train"]


# Saves on the way.


def interim_saves(
    every: float, seconds: Iterable[float], costs: Iterable[float]
) -> tuple[list[tuple[float, float, int]], float]:
    """Train, each step for some seconds and each save for some; return the saves' times, costs and steps."""
    times, prices = list(seconds), iter(costs)
    run = LeaseRun(replace(lease(0, len(times), saves=[len(times)]), checkpoint_every=every))
    now, made = 0.0, []
    while not run.over:
        match run.next(now):
            case "train":
                now += times[run.at]
            case "save" if run.is_interim:
                made.append((now, next(prices), run.at))
                now += made[-1][1]
        run.done()
    return made, now


def test_a_long_lease_is_saved_on_its_way_at_the_end_of_the_step_in_which_it_is_due() -> None:
    made, _ = interim_saves(600, [250.0] * 8, [0.0] * 9)
    assert [(now, step) for now, _, step in made] == [(750, 3), (1500, 6)]
    assert interim_saves(600, [590.0], [0.0])[0] == []


@given(
    st.floats(1, 100),
    st.lists(st.floats(0.1, 50), min_size=1, max_size=60),
    st.lists(st.floats(0, 30), min_size=60, max_size=60),
)
def test_saves_on_the_way_take_at_most_a_twentieth_and_come_in_time_where_they_take_less(
    every: float, seconds: list[float], costs: list[float]
) -> None:
    made, end = interim_saves(every, seconds, costs)
    for (now, cost, _), (after, _, _) in pairwise([*made, (end, 0.0, 0)]):
        apart = max(every, 19 * cost)
        assert after - now - cost <= apart + max(seconds) + 1e-6
        if after < end:
            assert after - now - cost >= apart - 1e-6
    waited = sum(cost for _, cost, _ in made[:-1])  # training goes on after all but the last
    assert waited <= end / 20 + 1e-6


def test_what_was_saved_anyway_is_not_due_and_nothing_is_begun_while_the_last_is_being_written() -> None:
    run = LeaseRun(replace(lease(0, 100, saves=[7, 100]), checkpoint_every=5.0))
    made = []
    while not run.over:
        if run.next(float(run.at), can_save=not 13 <= run.at < 20) == "save":
            made.append(run.at)
        run.done()
    assert made == [5, 7, 12, *range(20, 101, 5)]


def test_orders_may_let_a_lease_save_on_its_way_later() -> None:
    run = LeaseRun(lease(0, 9, saves=[9]))
    for now in range(4):  # start, and three steps
        run.next(float(now))
        run.done()
    run.update(replace(update(9, saves=[9]), checkpoint_every=2.0))
    assert run.next(4.0) == "save"
    assert run.is_interim
