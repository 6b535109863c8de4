"""What a verdict says of runs that should be the same, and what it tells the trainer's author to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from hippotune.engine.verdicts import judge
from hippotune.protocol.fingerprint import Fingerprint
from hippotune.protocol.proof import Name, Run
from hippotune.trainers.state.fingerprint import of_graph

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
