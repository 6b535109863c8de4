"""Validation notices what does not hold, from either side of every pair of lists."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from engine.world import World
from hippotune.engine.held_states import HeldStates
from hippotune.engine.repeat import Repeat
from hippotune.engine.state import State
from hippotune.engine.validation import validate
from hippotune.engine.workers import BrokenLease
from hippotune.errors import IllegalTransition
from hippotune.plan.facts import Position
from hippotune.sequences import Config
from hippotune.stages.frontier import Want

STEP = 10
HISTORY = r"lease 0 on worker 0 is running[\s\S]*given to worker 0"


def first_want(state: State) -> dict[int, object]:
    return state.frontier.wants[state.plan.nodes[0]]


FAULTS: list[tuple[str, Callable[[State], object]]] = [
    ("request 1 misses nothing", lambda state: state.requests[1].missing.clear()),
    ("request 1 misses step 10 .* 0 times", lambda state: first_want(state).pop(STEP)),
    ("step 7 .* wanted by no request", lambda state: first_want(state).update({7: Want()})),
    ("wanted by request 9", lambda state: first_want(state)[STEP].requests.update({9: "study"})),
    ("save at .* no lease has promised", lambda state: waits(state, Position(0, 3), {})),
    ("waits for a save at .* does not miss", lambda state: waits(state, Position(0, STEP), {9: "study"})),
    ("request 9 is worth something", lambda state: state.worths.update({9: 1.0})),
    (f"one side only: {HISTORY}", lambda state: state.promises.saves._steps[lease(state)].add(7)),
    (f"one side only: {HISTORY}", lambda state: state.promises.saves._places.clear()),
    ("promises of a save are counted", lambda state: vars(state.promises.saves).update(count=5)),
    (f"beside their owner: {HISTORY}", lambda state: setattr(lease(state), "saves", {STEP})),
    (f"but not both: {HISTORY}", lambda state: state.leases._on_node.clear()),
    (f"but not both: {HISTORY}", lambda state: setattr(lease(state), "proof", True)),
    ("listed wrongly", lambda state: state.leases.by_number.update({7: lease(state)})),
    (f"runs without its worker 0: {HISTORY}", lambda state: state.workers.busy.pop(0)),
    ("worker 1 is busy with lease 7: which does not exist", lambda state: state.workers.busy.update({1: 7})),
    ("slot 0 is taken by .* 2 of it", lambda state: state.workers._taken[0].update({1: Fraction(1)})),
    ("worker 0 is idle and busy", lambda state: state.workers.idle.update({0: None})),
    ("worker 1 is on one side only", lambda state: state.workers.idle.pop(1)),
    ("in the list of platforms", lambda state: state.workers._platform.pop(1)),
    ("worker 1 is on slot 1 on one side", lambda state: state.workers._seats[1].clear()),
    ("worker 1 is leaving", lambda state: state.workers._leaving.add(1)),
    ("worker 0 was given nothing", lambda state: state.workers._pristine.add(0)),
    ("slot 1 is free on one side", lambda state: state.workers._free.clear()),
    ("slot 0 has room for a packed lease", lambda state: state.workers._partly.update({0: None})),
    ("slot 1 has a host", lambda state: state.workers._host.pop(1)),
    ("worker 0 holds a state for others", lambda state: hold(state, 0)),
    ("worker 1 is listed as the holder", lambda state: states(state)._holder.update({Position(0, 1): 1})),
    ("worker 1 has an unsaved state and", lambda state: states(state)._unsaved.update({1: None})),
    ("worker 1 is ready", lambda state: states(state)._ready.update({1: None})),
]


def lease(state: State) -> object:
    return state.leases.by_number[0]


def states(state: State) -> HeldStates:
    return state.workers.states


def hold(state: State, worker: int) -> None:
    states(state).hold(worker, Position(0, 1), saved=True)


def waits(state: State, at: Position, numbers: dict[int, str]) -> None:
    state.promises.waiting_for_save[at] = numbers


@pytest.mark.parametrize(("told", "break_something"), FAULTS)
def test_a_fault_is_noticed(told: str, break_something: Callable[[State], object]) -> None:
    world = World(slots=2)
    world.submit((Config({"lr": 0.1}), STEP))
    validate(world.engine)
    break_something(world.engine.state)
    with pytest.raises(IllegalTransition, match=told):
        validate(world.engine)


def test_a_proof_that_no_lease_runs_is_noticed() -> None:
    world = World(slots=1)
    world.engine.proofs.running[7] = Repeat.__new__(Repeat)
    with pytest.raises(IllegalTransition, match="lease 7 is a proof lease on one side only"):
        validate(world.engine)


def test_a_broken_lease_has_its_workers() -> None:
    world = World(slots=2)
    broken = world.engine.worker_events.broken
    broken[7] = BrokenLease(leader=None, busy=set())
    with pytest.raises(IllegalTransition, match="lost all of its workers"):
        validate(world.engine)
    broken[7] = BrokenLease(leader=None, busy={1})
    with pytest.raises(IllegalTransition, match="which are not busy with it"):
        validate(world.engine)
