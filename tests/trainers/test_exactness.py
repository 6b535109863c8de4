"""However a trial is interrupted, moved and evaluated, it ends in the same state, bit for bit."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import few_examples
from hippotune import Config, Constant, Exponential, MultiStep, Piecewise, Warmup
from hippotune.trainers.base import Trainer
from trainers.samples import (
    Convolutional,
    Course,
    Plain,
    Recurrent,
    Saving,
    Stating,
    interrupted,
    uninterrupted,
)

STEPS = 6
COMMON = {
    "lr": Warmup(2, Exponential(0.1, 0.9)),
    "bs": MultiStep(8, [3], 2),
    "momentum": Piecewise([0.7, 0.8, 0.9], [2, 5]),
    "weight_decay": Piecewise([1e-4, 1e-3], [4]),
    "noise": Piecewise([0.1, 0.2], [4]),
}
TRIALS: dict[str, tuple[type[Trainer], Config]] = {
    "cnn-sgd": (Convolutional, Config({**COMMON, "optimizer": "sgd"})),
    "cnn-adam": (Convolutional, Config({**COMMON, "optimizer": "adam", "lr": Constant(0.01)})),
    "cnn-both": (Convolutional, Config({**COMMON, "optimizer": Piecewise(["sgd", "adam"], [3]), "lr": 0.01})),
    "gru-adam": (Recurrent, Config({"lr": Exponential(0.05, 0.8), "length": Piecewise([5, 9], [4])})),
    "numpy": (Plain, Config({"rate": Exponential(0.1, 0.9)})),
    "numpy-files": (Saving, Config({"rate": Exponential(0.1, 0.9)})),
    "numpy-dict": (Stating, Config({"rate": Exponential(0.1, 0.9)})),
}
EVENTS = ["nothing", "evaluate", "warm", "move", "return", "again"]


@cache
def whole(name: str) -> Course:
    return uninterrupted(*TRIALS[name], STEPS)


@pytest.mark.parametrize("name", TRIALS)
@few_examples
@given(events=st.lists(st.sampled_from(EVENTS), min_size=STEPS, max_size=STEPS))
def test_a_trial_ends_in_the_same_state_however_it_is_interrupted_and_evaluated(
    name: str, events: list[str]
) -> None:
    assert interrupted(*TRIALS[name], events).agrees_with(whole(name))


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("name", TRIALS)
def test_no_single_event_at_every_step_changes_anything(name: str, event: str) -> None:
    assert interrupted(*TRIALS[name], [event] * STEPS).agrees_with(whole(name))


def test_worker_processes_of_a_loader_change_nothing() -> None:
    events = ["nothing", "move", "evaluate", "return"]
    alone = uninterrupted(*TRIALS["cnn-sgd"], len(events))
    assert interrupted(*TRIALS["cnn-sgd"], events, {"num_workers": 2}).agrees_with(alone)
