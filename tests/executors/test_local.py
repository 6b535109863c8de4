"""Worker processes on this machine: how they are made, how they end, and what they leave behind."""

from __future__ import annotations

import asyncio
import atexit
import gc
import math
import os
import queue
import re
import resource
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from executors.conformance import TrainingConformance
from executors.noisy import Noisy
from executors.rig import NEVER, Rig
from hippotune.errors import HippoError, InvalidInput
from hippotune.executors import environment
from hippotune.executors.base import Job
from hippotune.executors.local.executor import Local
from hippotune.protocol.events import (
    CheckpointSaved,
    Event,
    LeaseFailed,
    LeaseFinished,
    MetricsReported,
    WorkerJoined,
    WorkerLost,
)
from hippotune.trainers.base import Trainer
from processes import below
from waiting import SECONDS, until

MakeRig = Callable[..., Rig]


class TestConformance(TrainingConformance):
    @classmethod
    def make_executor(cls) -> Local:
        return Local(workers=2)


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[MakeRig]:
    rigs: list[Rig] = []

    def make(executor: Local | None = None, **options: Any) -> Rig:
        home = tmp_path / str(len(rigs))
        home.mkdir()
        rig = Rig(executor or Local(workers=1), home, **options)
        rigs.append(rig)
        for worker in range(rig.executor.workers):
            rig.wait(WorkerJoined, worker=worker)
        return rig

    yield make
    for rig in rigs:
        rig.close()


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    return make_rig()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """An executor with one worker, for tests that leave it as good as new."""
    rig = Rig(Local(workers=1), tmp_path_factory.mktemp("shared"))
    rig.wait(WorkerJoined)
    yield rig
    rig.close()


def process_of(rig: Rig, worker: int = 0) -> psutil.Process:
    story = rig.story(rig.run(1, worker=worker, evaluations=[1]))
    [pid] = [event.metrics["pid"] for event in story if isinstance(event, MetricsReported)]
    return psutil.Process(int(pid))


def logs_of(rig: Rig) -> Path:
    return rig.checkpoints / "logs"


class Placed(Noisy):
    """Says where it runs."""

    def evaluate(self) -> dict[str, float]:
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return {
            "cores": len(psutil.Process().cpu_affinity() or []),
            "first core": min(psutil.Process().cpu_affinity() or [0]),
            "threads": int(os.environ["OMP_NUM_THREADS"]),
            "gpu": int(gpu) if gpu.isdigit() else -1,  # whoever runs the tests may have hidden all of them
            "pid": os.getpid(),
        }


def places(rig: Rig, workers: int) -> list[dict[str, float]]:
    return [rig.metrics(rig.run(0, worker=worker, evaluations=[0]))[0] for worker in range(workers)]


# How processes end.


def test_closing_leaves_no_process(make_rig: MakeRig) -> None:
    rig = make_rig(Local(workers=2))
    processes = [process_of(rig, worker) for worker in range(2)]
    rig.close()
    assert not any(process.is_running() for process in processes)


def test_closing_may_be_repeated_and_commands_after_it_are_dropped(rig: Rig) -> None:
    rig.close()
    rig.close()
    rig.run(3)


def test_closing_before_the_workers_are_up_leaves_no_process(tmp_path: Path) -> None:
    before = below()
    rig = Rig(Local(workers=2), tmp_path)
    rig.close()
    assert below() <= before


def test_closing_does_not_wait_for_a_step(rig: Rig) -> None:
    process = process_of(rig)
    rig.run(9, hold=3)
    rig.gate.wait_for(3)
    rig.close()
    assert not process.is_running()


def test_closing_lets_saves_finish(rig: Rig) -> None:
    lease = rig.run(20, saves=range(1, 21))
    rig.wait(LeaseFinished, lease=lease)
    rig.close()
    for step in range(1, 21):
        rig.wait(CheckpointSaved, lease=lease, step=step)


def test_an_executor_can_be_used_again_after_it_was_closed(make_rig: MakeRig) -> None:
    executor = Local(workers=1, hang_after=math.inf)
    make_rig(executor).close()
    rig = make_rig(executor)
    lease = rig.run(2)
    assert rig.story(lease)[-1] == LeaseFinished(lease, 2)


def test_an_executor_cannot_be_used_twice_at_a_time(rig: Rig, tmp_path: Path) -> None:
    with pytest.raises(HippoError, match="at work already"):
        asyncio.run(rig.executor.start(Job(Noisy, {}, 0, tmp_path), lambda event: None))


def test_an_executor_that_is_forgotten_leaves_no_process(tmp_path: Path) -> None:
    before = below()
    inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
    executor = Local(workers=2)
    asyncio.run(executor.start(Job(Noisy, {}, 0, tmp_path / "checkpoints"), inbox.put))
    joined = [inbox.get(timeout=SECONDS) for _ in range(2)]
    assert {event.worker for event in joined if isinstance(event, WorkerJoined)} == {0, 1}
    assert len({event.platform for event in joined if isinstance(event, WorkerJoined)}) == 1
    processes = below() - before
    assert len(processes) == 4, "two workers and their keepers"
    del executor
    gc.collect()
    assert psutil.wait_procs(processes, SECONDS)[1] == []


# How processes die.


def test_the_last_words_of_a_dead_worker_are_passed_on(shared: Rig) -> None:
    shared.run(6, fault="train kill 2")
    reason = shared.wait(WorkerLost).reason
    shared.wait(WorkerJoined)
    assert "killed by SIGKILL" in reason
    assert re.search(r"/logs/\d+-node-\d+-step-0.log:\n    \[step 3\]\n    these are the last words", reason)


def test_a_crash_in_native_code_is_told_with_the_python_code_that_led_to_it(shared: Rig) -> None:
    shared.run(6, fault="train segfault 2")
    reason = shared.wait(WorkerLost).reason
    shared.wait(WorkerJoined)
    assert "killed by SIGSEGV" in reason
    assert "in fall_ill" in reason
    assert "these are the last words" not in reason


def test_what_a_worker_forked_neither_hides_its_death_nor_outlives_it(shared: Rig) -> None:
    group = os.getpgid(process_of(shared).pid)
    shared.run(6, fault="train orphan 2")
    shared.wait(WorkerLost)
    shared.wait(WorkerJoined)
    assert [process for process in psutil.process_iter() if belongs_to(process, group)] == []


def belongs_to(process: psutil.Process, group: int) -> bool:
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        return os.getpgid(process.pid) == group and bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def test_a_worker_that_hangs_is_killed_and_replaced(make_rig: MakeRig) -> None:
    rig = make_rig(Local(workers=1, hang_after=1))
    rig.run(6, fault="train hang 2")
    lost = rig.wait(WorkerLost)
    assert lost.kind == "hung"
    assert "finished no step, evaluation, load or save for 1 s" in lost.reason
    rig.wait(WorkerJoined)
    rig.run(6, fault="train hang 2", patience=2)
    assert "load or save for" in rig.wait(WorkerLost).reason
    rig.wait(WorkerJoined)  # a lease on it might take longer than that to start, on a machine under load


def test_a_system_that_refuses_a_process_is_asked_again(
    shared: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    lease = shared.run(9, hold=3, fault="train print 1")  # there is a log to quote, too
    shared.gate.wait_for(3)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # no descriptors: no pipes to a new process
    try:
        os.kill(shared.gate.waiting_process, signal.SIGKILL)
        until(lambda: "a worker process cannot be started" in caplog.text)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    lost = shared.wait(WorkerLost)
    assert lost.kind == "died"
    assert "its log cannot be read" in lost.reason
    shared.wait(WorkerJoined)
    assert not [event for event in shared.unread_of(lease) if isinstance(event, LeaseFinished)]
    lease = shared.run(2)
    assert shared.story(lease)[-1] == LeaseFinished(lease, 2)


def test_an_interrupt_from_the_keyboard_does_not_concern_workers(shared: Rig) -> None:
    worker = process_of(shared)
    lease = shared.run(8, hold=3)
    shared.gate.wait_for(3)
    worker.send_signal(signal.SIGINT)
    assert shared.story(lease)[-1] == LeaseFinished(lease, 8)


def test_commands_for_a_worker_that_is_gone_are_dropped(shared: Rig) -> None:
    shared.run(6, fault="train kill 2")
    shared.wait(WorkerLost)
    lost = shared.run(3)
    shared.wait(WorkerJoined)
    found = shared.run(3)
    assert shared.story(found)[-1] == LeaseFinished(found, 3)
    assert shared.unread_of(lost) == []


# What processes are like.


def test_prints_go_to_a_log_and_not_to_the_terminal(shared: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    shared.story(shared.run(6, fault="train print 2"))
    assert "the trainer is fine" not in capfd.readouterr().out
    *_, log = sorted(logs_of(shared).glob("*-node-*.log"))
    assert log.read_text().endswith("\n[step 3]\nthe trainer is fine\n")


def test_messages_of_any_size_get_through_in_order(shared: Rig) -> None:
    lease = shared.run(NEVER, hold=3, saves=range(NEVER, NEVER + 100_000))
    shared.gate.wait_for(3)
    for end in range(NEVER, NEVER + 50):
        shared.update(lease, end, evaluations=range(NEVER, NEVER + 10_000))
    shared.update(lease, 30)
    assert shared.story(lease)[-1] == LeaseFinished(lease, 30)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes cannot be kept on cores here")
def test_cores_are_shared_out_evenly(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = sorted(os.sched_getaffinity(0))
    workers = min(2, len(cores))
    rig = make_rig(Local(workers=workers), trainer=Placed)
    share = len(cores) // workers
    found = places(rig, workers)
    assert [place["cores"] for place in found] == [share] * workers
    assert [place["threads"] for place in found] == [share] * workers
    assert len({place["first core"] for place in found}) == workers


def test_a_given_number_of_threads_is_used_on_any_core(make_rig: MakeRig) -> None:
    [place] = places(make_rig(Local(workers=1, threads=3), trainer=Placed), 1)
    assert place["threads"] == 3
    assert place["cores"] == len(psutil.Process().cpu_affinity() or [])


def test_each_worker_sees_a_gpu_of_its_own(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,3")
    rig = make_rig(Local(workers=3), trainer=Placed)
    assert [place["gpu"] for place in places(rig, 3)] == [5, 3, 5]
    assert rig.executor.environment()["CUDA_VISIBLE_DEVICES"] == "5", "beside the workers, too"
    fresh = [rig.run(1, worker=worker, evaluations=[1], fresh=True) for worker in range(2)]
    assert [rig.metrics(lease)[1]["gpu"] for lease in fresh] == [5, 3]


def test_a_worker_that_takes_the_place_of_another_sees_the_same_gpu(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,3")
    rig = make_rig(Local(workers=1), trainer=Placed)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4")
    process_of(rig).kill()
    rig.wait(WorkerJoined)
    assert places(rig, 1)[0]["gpu"] == 5


def test_workers_that_are_packed_on_a_slot_share_its_gpu(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,3,4")
    rig = make_rig(Local(workers=2), trainer=Placed, packing=2)
    for worker in (2, 3):
        rig.wait(WorkerJoined, worker=worker)
    assert [place["gpu"] for place in places(rig, 4)] == [5, 3, 5, 3]


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        ("0", ["0", "0"]),
        ("GPU-8932f937, MIG-1/0", ["GPU-8932f937", "MIG-1/0"]),
        ("1,-1,2", ["1", "1"]),
        ("-1", []),
        ("", []),
        (None, ["0", "1"]),
    ],
)
def test_gpus_are_those_that_are_visible_or_else_all_that_the_system_has(
    visible: str | None, gpus: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("nvidia2", "nvidia7", "nvidiactl", "nvidia-uvm"):  # as a container has them
        (tmp_path / name).touch()
    (tmp_path / "nvidia3").symlink_to(tmp_path / "that is refused")
    monkeypatch.setattr(environment, "_DEVICES", tmp_path)
    given = {} if visible is None else {environment.GPU_VARIABLE: visible}
    found = environment.shares_of_gpus(2, given)
    assert found == ([{environment.GPU_VARIABLE: gpu} for gpu in gpus] or [{}, {}])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0}, "workers is 0; expected a whole number of at least 1"),
        ({"workers": 1.5}, "workers is 1.5"),
        ({"workers": True}, "workers is True"),
        ({"hang_after": 0}, "hang_after is 0; expected seconds above 0"),
        ({"hang_after": float("nan")}, "hang_after is nan"),
        ({"hang_after": "soon"}, "hang_after is 'soon'"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Local(**arguments)


class Leaking(Trainer):
    """Changes what it has prepared, in its second step."""

    def prepare(self) -> None:
        self.prepared = [0]

    def build(self) -> None:
        self.steps = 0

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.values = dict(hp)

    def train(self) -> None:
        self.steps += 1
        self.prepared[0] += self.steps == 2

    def evaluate(self) -> Mapping[str, float]:
        return {"steps": self.steps}


@pytest.mark.parametrize("saves", [[2], []])
def test_a_lease_that_has_changed_what_trials_share_neither_saves_nor_ends_well(
    make_rig: MakeRig, saves: list[int]
) -> None:
    rig = make_rig(Local(workers=1), trainer=Leaking)
    failed = rig.story(rig.run(2, saves=saves))[-1]
    assert isinstance(failed, LeaseFailed)
    assert "self.prepared was left by prepare() and has changed since" in failed.error
    assert not list(rig.checkpoints.glob("node-*"))


class Ending(Noisy):
    """Where its rate is 1, has something to do at the end of its process, for which it asks the gate."""

    def setup(self, hp: Mapping[str, Any]) -> None:
        super().setup(hp)
        if self.values["rate"] == 1:
            atexit.register(self.end)

    def end(self) -> None:
        with suppress(OSError):  # nobody is there any more
            self.ask(self.settings["gate"])
        Path(self.settings["ended"], str(os.getpid())).touch()


def test_a_fresh_interpreter_ends_as_a_program_does(make_rig: MakeRig, tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    ended.mkdir()
    rig = make_rig(trainer=Ending, settings={"ended": str(ended)})
    rig.metrics(rig.run(1))  # from then on, the worker is not fresh itself
    story = rig.story(rig.run(1, evaluations=[1], fresh=True, rate=1))
    (pid,) = [int(event.metrics["pid"]) for event in story if isinstance(event, MetricsReported)]
    assert list(ended.iterdir()) == [ended / str(pid)]
