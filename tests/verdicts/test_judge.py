"""What a verdict says of runs that should be the same, and what it tells the trainer's author to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from hippotune.protocol.fingerprint import Fingerprint
from hippotune.protocol.proof import Name, Run, Verdict
from hippotune.trainers.state.fingerprint import of_graph
from hippotune.verdicts.judge import judge

State = Mapping[str, Any]


def noted(state: State, volatile: tuple[str, ...] = ()) -> Fingerprint:
    return Fingerprint(of_graph(SimpleNamespace(**state), volatile=volatile), volatile=volatile)


def run(
    name: Name,
    *states: State | None,
    metrics: Mapping[str, float] | None = None,
    evaluated: State | None = None,
    error: str | None = None,
    volatile: tuple[str, ...] = (),
) -> Run:
    """Return a run with states after steps 1 and 2; metrics and the state after an evaluation at the last."""
    start = 1 if name in ("fresh", "warm", "repeated") else 0
    last = len(states)
    return Run(
        name,
        start,
        {step: noted(it, volatile) for step, it in enumerate(states, 1) if it is not None},
        {} if evaluated is None else {last: noted(evaluated, volatile)},
        {} if metrics is None else {last: metrics},
        error,
    )


def own(saved: State, live: State) -> Fingerprint:
    """Return the state of a trainer that says by state_dict() what is saved of it."""
    itself = of_graph(SimpleNamespace(**live), unsaved=True)
    return Fingerprint((*of_graph(dict(saved), "state_dict()"), *itself), "state_dict()")


def runs_of(momentum: Mapping[Name, tuple[float, ...]]) -> list[Run]:
    """Return runs that end at step 2, or after a step where they have one value; one from a cut has two."""
    runs = []
    for name, values in momentum.items():
        start = 1 if name in ("fresh", "warm", "repeated") else 0
        first = 2 if name == "straight" else 1
        states = {step: own({"w": step}, {"w": step, "m": m}) for step, m in enumerate(values, first)}
        runs.append(Run(name, start, states))
    return runs


def rehearsed(*, one: Any, two: Any, fresh: Any, warm: Any, again: Any, **options: Any) -> list[Run]:
    return [
        run("reference", one, two, **options),
        run("warm", None, warm, **options),
        run("fresh", None, fresh, **options),
        run("again", again, **options),
    ]


def test_runs_that_agree_are_exact() -> None:
    one, two = {"w": np.ones(3)}, {"w": np.zeros(3)}
    verdict = judge("Net", rehearsed(one=one, two=two, fresh=two, warm=two, again=one))
    assert (verdict.outcome, verdict.text) == ("exact", "")


def test_what_a_load_loses_is_named_with_its_effect() -> None:
    runs = [
        run("reference", {"w": np.ones(3), "seen": 1}, {"w": np.full(3, 2.0), "seen": 2}),
        run("fresh", {"w": np.ones(3), "seen": 0}, {"w": np.full(3, 1.5), "seen": 1}),
    ]
    verdict = judge("Net", runs)
    assert (verdict.outcome, verdict.path, verdict.step) == ("differs", "self.w", 2)
    assert "cut after step 1 and goes on in a fresh process" in verdict.text
    assert "self.w is 2.0 at [0] straight through, and 1.5 after the cut" in verdict.text
    assert "A save and a load changes this: self.seen is 1 before, and 0 after" in verdict.text


def test_what_a_load_changes_and_no_step_depends_on_is_no_difference() -> None:
    runs = [run("reference", {"cache": 1}, {"cache": 2}), run("fresh", {"cache": None}, {"cache": 2})]
    assert judge("Net", runs).outcome == "exact"


def test_what_is_not_saved_and_not_missed_yet_is_told_by_name_and_once() -> None:
    told = judge(
        "Net", runs_of({"reference": (1.0, 1.9), "warm": (0, 0.9), "fresh": (0, 0.9), "again": (1.0,)})
    )
    assert (told.outcome, told.volatile) == ("exact", ("self.m",))
    assert told.text.startswith(
        "Net does not save self.m: a step after a cut, self.m is 1.9 straight through"
    )
    assert (
        "Put it into state_dict(), and back in load_state_dict(), or declare volatile = {'self.m'}"
        in told.text
    )
    audit = runs_of({"straight": (1.9,), "repeated": (0, 0.9)})
    assert "does not save self.m" in judge("Net", audit).text
    assert judge("Net", audit, volatile=told.volatile).text == ""


@pytest.mark.parametrize(
    ("momentum", "known"),
    [
        ({"reference": (1, 2), "warm": (0, 2), "fresh": (0, 2), "again": (1,)}, ()),  # made anew: a cache
        (
            {"reference": (1, 2), "warm": (0, 3), "fresh": (0, 4), "again": (1,)},
            (),
        ),  # not the same when repeated
        (
            {"reference": (1, 2), "warm": (0, 3), "fresh": (0, 3), "again": (5,)},
            ("self.m",),
        ),  # nor straight through
    ],
)
def test_what_is_not_saved_and_made_anew_or_differs_each_time_is_not_told(
    momentum: Mapping[Name, tuple[float, ...]], known: tuple[str, ...]
) -> None:
    verdict = judge("Net", runs_of(momentum))
    assert (verdict.outcome, verdict.text, verdict.volatile) == ("exact", "", known)


def test_a_metric_that_differs_while_nothing_on_self_does_points_outside() -> None:
    state = {"w": 1}
    runs = [
        run("reference", state, state, metrics={"loss": 0.5}),
        run("fresh", state, state, metrics={"loss": 0.25}),
    ]
    verdict = judge("Net", runs, frozenset({"loss"}))
    assert verdict.path is None
    assert (
        "the metric 'loss' is 0.5 straight through, and 0.25 after the cut; nothing on self" in verdict.text
    )
    assert "a library's own random numbers" in verdict.text


def test_where_a_needed_metric_differs_each_time_so_does_the_number_that_it_comes_of() -> None:
    runs = [
        run(name, None, {"value": value}, metrics={"loss": value})
        for name, value in (("reference", 0.1), ("fresh", 0.2), ("warm", 0.3))
    ]
    verdict = judge("Net", runs, frozenset({"loss"}))  # type: ignore[arg-type]
    assert verdict.path == "self.value"
    assert "nothing on self" not in verdict.text


def test_an_evaluate_that_changes_the_state_is_named() -> None:
    verdict = judge("Net", [run("reference", {"hits": 3}, evaluated={"hits": 0})])
    assert verdict.path == "self.hits"
    assert verdict.text.startswith("evaluate() of Net changes the state: after step 1, self.hits is 3 before")


def test_what_evaluate_changes_is_not_volatile_unless_it_is_declared() -> None:
    runs = [
        run("reference", {"best": 0.0}, evaluated={"best": -1.0}),
        run("again", {"best": 5.0}, evaluated={"best": -1.0}),
    ]
    verdict = judge("Net", runs)
    assert (verdict.outcome, verdict.path) == ("differs", "self.best")
    assert "volatile = {'self.best'}" in verdict.text


def test_a_second_trial_that_differs_points_to_what_the_first_left_behind() -> None:
    one, two = {"w": np.ones(2)}, {"w": np.ones(2)}
    verdict = judge("Net", rehearsed(one=one, two=two, fresh=two, warm=two, again={"w": np.zeros(2)}))
    assert verdict.path == "self.w"
    assert "a second trial of the same config and seed" in verdict.text
    assert "has left something behind: a global" in verdict.text


def test_what_differs_each_time_is_not_deterministic() -> None:
    draws = [{"w": np.full(2, float(number))} for number in range(1, 6)]
    verdict = judge(
        "Net", rehearsed(one=draws[0], two=draws[1], fresh=draws[2], warm=draws[3], again=draws[4])
    )
    assert verdict.outcome == "differs"
    assert "Net is not deterministic" in verdict.text


def test_a_number_that_differs_each_time_and_decides_a_metric_is_not_deterministic() -> None:
    runs = [
        run("reference", {"value": 0.1}, {"value": 0.2}, metrics={"loss": 0.2}),
        run("warm", None, {"value": 0.3}, metrics={"loss": 0.3}),
        run("fresh", None, {"value": 0.4}, metrics={"loss": 0.4}),
        run("again", {"value": 0.5}),
    ]
    verdict = judge("Net", runs, frozenset({"loss"}))
    assert verdict.path == "self.value"
    assert "Net is not deterministic" in verdict.text
    assert "After step 1, self.value is 0.1 in one run, and 0.5 in another. Something" in verdict.text


def test_a_plain_value_that_differs_in_all_runs_is_volatile_and_only_warned_of() -> None:
    clock = [{"w": 1, "times": [0.1 * number]} for number in range(1, 6)]
    runs = rehearsed(one=clock[0], two=clock[1], fresh=clock[2], warm=clock[3], again=clock[4])
    verdict = judge("Net", runs)
    assert (verdict.outcome, verdict.volatile) == ("exact", ("self.times",))
    assert re.match(r"self\.times of Net differs .* volatile = \{'self\.times'\} in the class", verdict.text)


def test_a_clock_that_is_saved_is_volatile_though_runs_from_the_checkpoint_agree_on_it() -> None:
    one, other = {"started": 1.5}, {"started": 2.5}
    verdict = judge("Net", rehearsed(one=one, two=one, fresh=one, warm=one, again=other))
    assert (verdict.outcome, verdict.volatile) == ("exact", ("self.started",))


def test_beside_what_was_volatile_before_only_plain_values_are_left_out() -> None:
    audit = [
        run("straight", None, {"pair": [1.5, np.ones(2)]}),
        run("repeated", None, {"pair": [2.5, np.zeros(2)]}),
    ]
    verdict = judge("Net", audit, volatile=["self.pair"])
    assert (verdict.outcome, verdict.path) == ("differs", "self.pair[1]")


def test_a_number_that_repeats_agree_on_is_lost_and_not_volatile() -> None:
    one, two = {"seen": 1}, {"seen": 2}
    verdict = judge("Net", rehearsed(one=one, two=two, fresh={"seen": 7}, warm={"seen": 7}, again=one))
    assert (verdict.outcome, verdict.path) == ("differs", "self.seen")


@pytest.mark.parametrize(("required", "outcome"), [({"loss"}, "exact"), ({"seconds"}, "differs")])
def test_a_metric_is_volatile_only_if_no_tuner_needs_it(required: set[str], outcome: str) -> None:
    runs = [
        run(name, {"w": 1}, {"w": 1}, metrics={"loss": 1.0, "seconds": seconds})
        for name, seconds in (("reference", 0.1), ("fresh", 0.2), ("warm", 0.3))
    ]
    verdict = judge("Net", runs, frozenset(required))  # type: ignore[arg-type]
    assert verdict.outcome == outcome
    if outcome == "exact":
        assert verdict.volatile == ("seconds",)
        assert "volatile = {'seconds'}" in verdict.text
        audit = [
            run("straight", {"w": 1}, metrics={"seconds": 1.0}),
            run("repeated", {"w": 1}, metrics={"seconds": 2.0}),
        ]
        assert judge("Net", audit, frozenset(required), verdict.volatile).outcome == "exact"


def test_what_is_declared_volatile_is_left_out() -> None:
    runs = [
        run(name, {"started": at}, metrics={"seconds": at}, volatile=("self.started", "seconds"))
        for name, at in (("reference", 0.1), ("again", 0.2))
    ]
    assert judge("Net", runs).text == ""  # type: ignore[arg-type]


def test_noisy_kernels_are_told_from_what_is_lost() -> None:
    def near(by: float, steps: int = 5) -> State:
        return {"w": torch.tensor([1.0, 2.0, 3.0 + by], dtype=torch.float64), "steps": steps}

    noisy = rehearsed(one=near(0), two=near(0), fresh=near(2e-6), warm=near(-3e-6), again=near(1e-6))
    verdict = judge("Net", noisy)
    assert verdict.outcome == "noisy"
    assert 1e-7 < verdict.spread < 1e-6
    assert "up to the noise of its kernels: self.w differs by 3e-07" in verdict.text
    lost = rehearsed(one=near(0), two=near(0), fresh=near(1e-3), warm=near(1e-3), again=near(1e-6))
    assert judge("Net", lost).path == "self.w"
    counter = rehearsed(one=near(0), two=near(0), fresh=near(0, 4), warm=near(0, 4), again=near(1e-6))
    assert judge("Net", counter).path == "self.steps"
    exact = [run("straight", near(0)), run("repeated", None, near(0))]
    exact[0].states[2] = noted(near(1e-6))
    assert judge("Net", exact).outcome == "differs"
    assert judge("Net", exact, spread=verdict.spread).outcome == "exact"


def test_what_is_no_tensor_has_no_noisy_kernels() -> None:
    def near(by: float) -> State:
        return {"w": np.array([1.0, 2.0, 3.0 + by])}

    runs = rehearsed(one=near(0), two=near(0), fresh=near(2e-6), warm=near(-3e-6), again=near(1e-6))
    assert judge("Net", runs).outcome == "differs"


def test_a_number_that_is_trained_is_not_volatile_for_two_runs_that_differ() -> None:
    runs = rehearsed(one={"w": 1.0}, two={"w": 2.0}, fresh={"w": 2.0}, warm={"w": 2.0}, again={"w": 1.5})
    verdict = judge("Net", runs)
    assert (verdict.outcome, verdict.path) == ("differs", "self.w")
    assert "volatile = {'self.w'} in the class leaves it out" in verdict.text
    made = rehearsed(one={"t": 1.0}, two={"t": 1.0}, fresh={"t": 1.0}, warm={"t": 1.0}, again={"t": 1.5})
    assert judge("Net", made).volatile == ("self.t",)
    clock = rehearsed(one={"t": 1.0}, two={"t": 2.0}, fresh={"t": 3.0}, warm={"t": 4.0}, again={"t": 5.0})
    assert judge("Net", clock).volatile == ("self.t",)


ROUNDS: dict[str, tuple[dict[str, tuple[Any, ...]], dict[str, tuple[Any, ...]]]] = {
    "a clock in seconds": (
        {"reference": (30, 30), "warm": (30, 31), "fresh": (30, 31), "again": (30,)},
        {"warm": (30, 31), "fresh": (30, 31), "again": (31, 31)},
    ),
    "a time in words": (
        {"reference": (":30", ":31"), "warm": (":30", ":32"), "fresh": (":30", ":32"), "again": (":30",)},
        {"warm": (":30", ":33"), "fresh": (":30", ":33"), "again": (":33", ":33")},
    ),
    "a process number": (
        {"reference": (7, 7), "warm": (7, 7), "fresh": (7, 8), "again": (7,)},
        {"warm": (7, 7), "fresh": (7, 9), "again": (7, 7)},
    ),
    "a step's seconds, rounded": (
        {"reference": (0.03, 0.04), "warm": (0.03, 0.03), "fresh": (0.03, 0.03), "again": (0.03,)},
        {"warm": (0.03, 0.03), "fresh": (0.03, 0.03), "again": (0.03, 0.03)},
    ),
    "a step's seconds, rounded, that repetitions agree on": (
        {"reference": (0.04, 0.03), "warm": (0.04, 0.03), "fresh": (0.04, 0.03), "again": (0.03,)},
        {"warm": (0.04, 0.03), "fresh": (0.04, 0.03), "again": (0.03, 0.03)},
    ),
    "lost": (
        {"reference": (1, 2), "warm": (1, 7), "fresh": (1, 7), "again": (1,)},
        {"warm": (1, 7), "fresh": (1, 7), "again": (1, 2)},
    ),
    "lost, and the same in all steps": (
        {"reference": (5, 5), "warm": (0, 0), "fresh": (0, 0), "again": (5,)},
        {"warm": (0, 0), "fresh": (0, 0), "again": (5, 5)},
    ),
    "trained from another start": (
        {"reference": (1.0, 2.0), "warm": (1.0, 2.0), "fresh": (1.0, 2.0), "again": (1.5,)},
        {"warm": (1.0, 2.0), "fresh": (1.0, 2.0), "again": (1.7, 2.7)},
    ),
}


def round_of(values: Mapping[Any, tuple[Any, ...]], losses: Mapping[int, float] | None = None) -> list[Run]:
    """Return runs with a value at each step, and a loss that does not depend on it, or on a value it does."""
    runs = []
    for name, each in values.items():
        found = run(name, *({"w": np.ones(2), "value": value} for value in each))
        found.metrics[len(each)] = {"loss": (losses or {}).get(each[-1], 0.5)}
        runs.append(found)
    return runs


@pytest.mark.parametrize("case", ROUNDS)
def test_values_that_agree_by_chance_are_told_from_what_is_lost_by_a_second_round(case: str) -> None:
    first, second = ROUNDS[case]
    verdict = judge("Net", round_of(first), frozenset({"loss"}))
    assert (verdict.outcome, verdict.doubtful, verdict.path) == ("differs", True, "self.value")
    verdict = judge("Net", [*round_of(first), *round_of(second)], frozenset({"loss"}))
    if case.startswith(("lost", "trained")):
        assert (verdict.outcome, verdict.path) == ("differs", "self.value")
    else:
        assert (verdict.outcome, verdict.volatile) == ("exact", ("self.value",))


def test_what_a_needed_metric_depends_on_leaves_no_doubt() -> None:
    first, second = ROUNDS["a process number"]
    losses = {8: 0.25}
    assert not judge("Net", round_of(first, losses), frozenset({"loss"})).doubtful
    verdict = judge("Net", [*round_of(first, losses), *round_of(second, losses)], frozenset({"loss"}))
    assert (verdict.outcome, verdict.path) == ("differs", "self.value")


def test_metrics_right_after_a_load_are_those_of_a_straight_run() -> None:
    state = {"w": 1}
    runs = [run("reference", state, state), run("warm", state, state), run("again", state)]
    runs[1].metrics[1], runs[2].metrics[1] = {"loss": 0.25}, {"loss": 0.5}
    verdict = judge("Net", runs, frozenset({"loss"}))
    assert (verdict.outcome, verdict.step) == ("differs", 1)


@pytest.mark.parametrize(
    ("straight", "repeated", "outcome"),
    [
        (30, [(30, 45), (30, 45)], "exact"),  # a clock in seconds
        (0.034, [(0.03, 0.03), (0.03, 0.03), (0.03, 0.031)], "exact"),  # rounded seconds
        (0.9, [(1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0)], "differs"),  # hidden state in one run alone
        (1.0, [(1.0, 0.9), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0)], "differs"),  # or in the other
    ],
)
def test_a_value_that_differs_at_a_branch_is_repeated_and_measured(
    straight: float, repeated: list[tuple[float, float]], outcome: str
) -> None:
    runs = [Run("straight", 0, {2: noted({"value": straight})})]
    verdicts: list[Verdict] = []
    for values in repeated:
        runs.append(run("repeated", *({"value": value} for value in values)))
        if verdicts:
            runs[-1].metrics[2] = {"loss": 0.5}
        verdicts.append(judge("Net", runs, frozenset({"loss"})))
    assert all(verdict.doubtful for verdict in verdicts[:-1])
    assert verdicts[-1].outcome == outcome


def test_a_run_that_raises_is_quoted() -> None:
    verdict = judge("Net", [run("reference", {}), run("fresh", error="FileNotFoundError: /tmp/cache")])
    assert "going on from the checkpoint of step 1 in a fresh process raised" in verdict.text
    assert verdict.text.endswith("FileNotFoundError: /tmp/cache")


def test_a_wide_step_may_differ_by_summation_order_alone() -> None:
    narrow = run("narrow", {"w": np.array([1.0, 2.0]), "seen": 8})
    assert judge("Net", [narrow, run("wide", {"w": np.array([1.0, 2.000001]), "seen": 8})]).outcome == "exact"
    verdict = judge("Net", [narrow, run("wide", {"w": np.array([1.000001, 2.1]), "seen": 4})])
    assert (verdict.outcome, verdict.path) == ("differs", "self.w")
    assert "self.w is 2.0 at [1] on one worker, and 2.1 on several; also different: self.seen" in verdict.text
    assert "a loss sums over the batch" in verdict.text


def test_what_a_nudge_changes_as_well_a_wide_step_may_change_and_nothing_else() -> None:
    def step(bias: float, weight: float, hits: int = 5, loss: float = 1.0) -> dict[str, Any]:
        return {"evaluated": {}, "metrics": {"loss": loss}, "state": {"b": bias, "w": weight, "hits": hits}}

    def runs(wide: dict[str, Any]) -> list[Run]:
        named = {"narrow": step(1e-9, 1.0), "wide": wide, "nudged": step(-3e-9, 1.000001, 6, 1.001)}
        return [
            run(name, it["state"], metrics=it["metrics"], evaluated=it["state"])  # type: ignore[arg-type]
            for name, it in named.items()
        ]

    assert judge("Net", runs(step(5e-9, 1.000003, 4, 1.01))).outcome == "exact"
    assert judge("Net", runs(step(5e-9, 1.01))).path == "self.w"
    verdict = judge("Net", runs(step(5e-9, 1.0, loss=2.0)))
    assert (
        "the metric 'loss' is 1.0 on one worker, and 2.0 on several; nothing on self differs" in verdict.text
    )


def test_a_step_that_raises_on_several_workers_is_quoted() -> None:
    verdict = judge("Net", [run("narrow", {}), run("wide", error="RuntimeError: shape")])
    assert verdict.text.startswith("Net cannot be trained by several workers")
    assert verdict.text.endswith("RuntimeError: shape")
