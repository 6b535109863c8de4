"""A study is a good guest on a cluster: it has what it can use, gives back the rest, and makes way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

import hippotune as hippo
from executors.noisy import Noisy
from executors.ray_nodes import Nodes, is_on
from executors.rig import Gate
from hippotune import Ray, Study
from hippotune.executors.ray import pool as ray_pool
from waiting import until

STEPS = 200
HOLD = 5


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.close()


def study_on(executor: Ray, home: Path, gate: Gate, **options: Any) -> Study:
    settings = {"gate": gate.address}
    return Study("guest", Noisy, home=home, executor=executor, settings=settings, version="1", **options)


def rates(count: int) -> hippo.GridSearch:
    space = {"rate": [0.1 * (number + 1) for number in range(count)], "fault": ["none"], "hold": [HOLD]}
    return hippo.GridSearch(space, metric="sum", mode="max", max_steps=STEPS)


def workers_of(cluster: Nodes) -> list[str]:
    return [name for name in cluster.actors if name.startswith("hippo/")]


def tune(pool: ThreadPoolExecutor, study: Study, trials: int) -> Future[Any]:
    return pool.submit(study.tune, rates(trials), progress=False)


def test_a_study_of_one_trial_has_one_slot_while_it_runs_and_none_afterwards(
    cluster: Nodes, tmp_path: Path, gate: Gate
) -> None:
    cluster.have(2)
    executor = Ray(slot={"place": 1}, release_after=0.1)
    with ThreadPoolExecutor() as pool, study_on(executor, tmp_path, gate, audit=0) as study:
        tuned = tune(pool, study, 1)
        gate.wait_for(HOLD)
        assert workers_of(cluster) == ["hippo/guest/worker-0"]
        other = cluster.hold({"place": 1})
        until(tuned.done, gate.open, 0.001)
        assert tuned.result().work.steps_trained == STEPS
        until(lambda: not workers_of(cluster))
        other.release()
        again = tune(pool, study, 2)
        gate.wait_for(HOLD)
        until(again.done, gate.open, 0.001)
        assert again.result().work.steps_trained == STEPS


def test_a_study_that_has_the_whole_cluster_gives_some_of_it_to_others_who_wait(
    cluster: Nodes, tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_pool, "_YIELD_SECONDS", 0.5)
    cluster.have(2)
    with (
        ThreadPoolExecutor() as pool,
        study_on(Ray(slot={"place": 1}), tmp_path, gate, audit=0) as study,
    ):
        tuned = tune(pool, study, 2)
        until(lambda: len(workers_of(cluster)) == 2)
        gate.wait_for(HOLD)
        other = pool.submit(cluster.occupy, {"place": 1})
        until(other.done, gate.open)
        assert not tuned.done()
        until(tuned.done, gate.open, 0.001)
        assert tuned.result().work.steps_trained == 2 * STEPS
        other.result().release()


def test_a_node_that_is_drained_has_its_leases_saved_and_moved_and_no_step_is_trained_again(
    cluster: Nodes, tmp_path: Path, gate: Gate
) -> None:
    nodes = cluster.have(2)
    with (
        ThreadPoolExecutor() as pool,
        study_on(Ray(slot={"place": 1}), tmp_path, gate, audit=0) as study,
    ):
        tuned = tune(pool, study, 1)
        gate.wait_for(HOLD)
        process = psutil.Process(gate.waiting_process)
        [node] = [node for node in nodes if is_on(node, process)]
        cluster.drain(node)
        until(lambda: not process.is_running(), gate.open)
        assert not tuned.done()
        until(tuned.done, gate.open, 0.001)
        assert tuned.result().work.steps_trained == STEPS
    cluster.kill(node)
