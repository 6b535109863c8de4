"""The same study on local processes and on Ray, undisturbed and disturbed: the results are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from executors import ray_study
from executors.ray_nodes import Head, Nodes, is_on
from executors.rig import Gate
from executors.smooth import LightSmooth
from executors.test_wide_local import LONG, REHEARSED, Asks, assert_close, trained
from hippotune import Fluid, Local, Ray, Study
from hippotune.executors.base import Emit, Executor, Job
from waiting import SECONDS, until


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.close()


def open_until(gate: Gate, is_over: Callable[[float], bool]) -> None:
    """Let trainers through until something is over, for which a function waits some seconds."""
    while not is_over(0.002):
        gate.open()


def finish(study: Future[Any], gate: Gate) -> Any:
    open_until(gate, lambda seconds: bool(wait([study], seconds).done))
    return study.result()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the study comes to on local processes."""
    folder = tmp_path_factory.mktemp("local")
    gate = Gate(folder / "gate")
    with ThreadPoolExecutor() as pool:
        study = pool.submit(ray_study.results, Local(workers=2, threads=1), folder / "home", gate.address)
        found = finish(study, gate)
    gate.close()
    return found


def begin(pool: ThreadPoolExecutor, executor: Executor, folder: Path, gate: Gate) -> Future[Any]:
    return pool.submit(ray_study.results, executor, folder / "home", gate.address)


def test_a_study_on_a_cluster_gives_bit_identical_results_with_checkpoints_wherever_a_link_leads(
    cluster: Nodes, expected: Any, tmp_path: Path, gate: Gate
) -> None:
    cluster.have(2)
    (tmp_path / "home").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "home" / "checkpoints").symlink_to(tmp_path / "shared")
    with ThreadPoolExecutor() as pool:
        assert finish(begin(pool, Ray(), tmp_path, gate), gate) == expected
    assert list(tmp_path.glob("shared/*/logs/*")) == [], "nothing was printed"
    assert list(tmp_path.glob("shared/*/.seen-*")) == []


class Prompt(Ray):
    """Has all its workers from the start."""

    async def start(self, job: Job, emit: Emit) -> None:
        await super().start(job, emit)
        self.demand({}, 1)

    def demand(self, slots: Mapping[int, int], together: int) -> None:
        super().demand({0: self.workers}, together)


@pytest.mark.usefixtures("unhurried")
def test_a_width_is_proved_on_a_cluster_before_it_is_used(cluster: Nodes, tmp_path: Path) -> None:
    cluster.have(2)
    executor = Prompt(workers=2)
    with Study("wide", LightSmooth, home=tmp_path, executor=executor, seed=3, width=Fluid()) as study:
        runtime = study._connection.open()
        study.eval(REHEARSED, 2)
        until(lambda: len(runtime.ask(lambda: runtime.loop.engine.workers.idle)) == 2)
        report = study.tune(Asks((LONG, 30)), progress=False)
        platforms = {checkpoint.platform for _, checkpoint in runtime.plan.checkpoints()}
    assert trained(report, 1)[0].last == 1
    assert trained(report, 2)
    assert report.work.proof_steps in (1, 2)
    assert_close(report)
    (platform,) = platforms
    assert f"torch {torch.__version__.partition('+')[0]}" in platform


def test_a_node_that_is_killed_in_the_middle_of_a_study_changes_no_result(
    cluster: Nodes, expected: Any, tmp_path: Path, gate: Gate
) -> None:
    nodes = cluster.have(2)
    with ThreadPoolExecutor() as pool:
        study = begin(pool, Ray(), tmp_path, gate)
        gate.wait_for(ray_study.HOLD + 1)
        worker = psutil.Process(gate.waiting_process)
        [doomed] = [node for node in nodes if is_on(node, worker)]
        cluster.kill(doomed)
        assert finish(study, gate) == expected


def test_a_driver_that_is_killed_leaves_no_actor_and_run_again_goes_on(
    cluster: Nodes, expected: Any, tmp_path: Path, gate: Gate
) -> None:
    cluster.have(1)
    with driver_of(cluster.address, tmp_path, gate) as driver:
        gate.wait_for(ray_study.HOLD + 1)
        worker = psutil.Process(gate.waiting_process)
        actor = worker.parents()[1]  # between them is the process that keeps the worker
        driver.kill()
    assert psutil.wait_procs([worker, actor], SECONDS)[1] == []
    with driver_of(cluster.address, tmp_path, gate) as again:
        assert said_by(again, gate) == expected


@pytest.fixture
def head() -> Iterator[Head]:
    head = Head()
    yield head
    head.close()


def test_a_head_that_is_restarted_in_the_middle_of_a_study_changes_no_result(
    head: Head, expected: Any, tmp_path: Path, gate: Gate
) -> None:
    with driver_of(head.address, tmp_path, gate) as driver:
        gate.wait_for(ray_study.HOLD + 1)
        head.restart()
        assert said_by(driver, gate) == expected


def driver_of(address: str, folder: Path, gate: Gate) -> subprocess.Popen[str]:
    """Start the study as a program of its own."""
    script = [sys.executable, ray_study.__file__, address, str(folder / "home"), gate.address]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(script, env=environment, stdout=subprocess.PIPE, text=True)


def said_by(driver: subprocess.Popen[str], gate: Gate) -> Any:
    """Return the results of a program's study, when it has ended."""
    open_until(gate, lambda seconds: has_ended(driver, seconds))
    assert driver.returncode == 0
    assert driver.stdout is not None
    return json.loads(driver.stdout.read())


def has_ended(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
