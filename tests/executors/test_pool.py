"""Slots of one machine that several plans share."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from executors.conformance import TrainingConformance
from executors.rig import Rig
from hippotune import Config, GridSearch, InvalidInput, Local, MultiStep, Pool, Study
from hippotune.executors.base import Executor
from hippotune.protocol.events import MetricsReported, OthersWait, WorkerJoined, WorkerLost
from processes import below
from study.walkers import Walker
from waiting import until

SPACE: dict[str, list[Any]] = {
    "lr": [0.1, MultiStep(0.1, [4], 0.1), MultiStep(0.1, [8], 0.1), 0.2],
    "bs": [16],
}


class TestConformance(TrainingConformance):
    @classmethod
    def make_executor(cls) -> Executor:
        return Pool(workers=2).executor()


class Runner(Walker):
    """Another trainer, with a plan of its own."""

    def train(self) -> None:
        super().train()
        self.weights = self.weights / 2


@pytest.fixture
def homes(tmp_path: Path) -> list[Path]:
    homes = [tmp_path / "one", tmp_path / "two"]
    for home in homes:
        home.mkdir()
    return homes


def process_of(rig: Rig, worker: int) -> psutil.Process:
    story = rig.story(rig.run(1, worker=worker, evaluations=[1]))
    [pid] = [event.metrics["pid"] for event in story if isinstance(event, MetricsReported)]
    return psutil.Process(int(pid))


def test_slots_go_from_a_plan_to_another_and_back_with_their_processes(homes: list[Path]) -> None:
    pool = Pool(workers=2)
    first = Rig(pool.executor(), homes[0])
    slots = {first.wait(WorkerJoined).worker, first.wait(WorkerJoined).worker}
    assert slots == {0, 1}
    kept, given = process_of(first, 0), process_of(first, 1)
    second = Rig(pool.executor(), homes[1])
    assert first.wait(OthersWait) == OthersWait(1), "each is to have one"
    first.executor.release(1)
    assert second.wait(WorkerJoined).worker == 1
    assert not given.is_running()
    assert kept.is_running()
    assert first.wait(OthersWait) == OthersWait(None)
    os.kill(process_of(second, 1).pid, signal.SIGKILL)
    second.wait(WorkerLost, worker=1)
    second.wait(WorkerJoined, worker=1)
    last = process_of(second, 1)
    first.executor.demand({}, 1)
    second.executor.demand({0: 2}, 1)
    assert first.wait(OthersWait) == OthersWait(0)
    first.executor.release(0)
    second.wait(WorkerJoined, worker=0)
    second.close()
    first.executor.demand({0: 1}, 1)
    first.wait(WorkerJoined)
    assert not last.is_running()
    first.close()


def test_two_trainers_share_two_slots_and_come_to_the_same_bits_as_alone(homes: list[Path]) -> None:
    before = below()
    alone = {}
    for trainer in (Walker, Runner):
        with Study(trainer.__name__, trainer, home=homes[0], executor=Local(2)) as study:
            alone[trainer] = results(study)
    pool = Pool(workers=2)
    studies = {
        trainer: Study(trainer.__name__, trainer, home=homes[1], executor=pool.executor())
        for trainer in (Walker, Runner)
    }
    with ThreadPoolExecutor() as threads:
        found = dict(zip(studies, threads.map(results, studies.values()), strict=True))
    assert found == alone
    for study in studies.values():
        study.close()
    assert below() <= before


def results(study: Study) -> dict[Config, Any]:
    report = study.tune(GridSearch(SPACE, "loss", "min", 12), progress=False)
    return {each.config: each.metrics for each in report.trials}


def test_an_idle_plan_holds_nothing_that_another_wants(homes: list[Path]) -> None:
    pool = Pool(workers=1)
    with Study("one", Walker, home=homes[0], executor=pool.executor()) as first:
        first.eval(Config({"lr": 0.1, "bs": 16}), 5)
        with Study("two", Runner, home=homes[1], executor=pool.executor()) as second:
            second.eval(Config({"lr": 0.1, "bs": 16}), 5)
            first.eval(Config({"lr": 0.1, "bs": 16}), 7)


def test_a_process_without_work_ends_after_a_while(homes: list[Path]) -> None:
    pool = Pool(workers=1, release_after=0.0)
    before = below()
    with Study("one", Walker, home=homes[0], executor=pool.executor()) as study:
        study.eval(Config({"lr": 0.1, "bs": 16}), 5)
        until(lambda: below() <= before)
        study.eval(Config({"lr": 0.1, "bs": 16}), 6)


def test_a_closed_executor_can_be_used_again(homes: list[Path]) -> None:
    executor = Pool(workers=1).executor()
    for home in homes:
        rig = Rig(executor, home)
        rig.wait(WorkerJoined)
        rig.close()
    asyncio.run(executor.close())


@pytest.mark.parametrize(
    "arguments", [{"workers": 0}, {"threads": 0}, {"hang_after": 0}, {"release_after": -1}]
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"{next(iter(arguments))} is {next(iter(arguments.values()))}"):
        Pool(**arguments)
