"""Workers on a Ray cluster of several nodes: how they come up, end, and follow the cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from executors.conformance import TrainingConformance
from executors.noisy import Noisy
from executors.ray_nodes import Nodes, is_on
from executors.rig import CONFIG, Rig
from hippotune import Ray, Study, TrainerError
from hippotune.errors import HippoError, InvalidInput, MissingExtra
from hippotune.executors.base import Job
from hippotune.executors.ray import pool as ray_pool
from hippotune.executors.ray.cluster import SlotResources
from hippotune.protocol.events import (
    CheckpointSaved,
    LeaseFailed,
    LeaseFinished,
    MetricsReported,
    WorkerJoined,
    WorkerLost,
)
from waiting import SECONDS, until

MakeRig = Callable[..., Rig]

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[MakeRig]:
    rigs: list[Rig] = []

    def make(executor: Ray, **options: Any) -> Rig:
        home = tmp_path / str(len(rigs))
        home.mkdir()
        rigs.append(Rig(executor, home, **options))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


class Placed(Noisy):
    """Says what is around it."""

    def evaluate(self) -> dict[str, float]:
        return {
            "threads": int(os.environ["OMP_NUM_THREADS"]),
            "devices": int(os.environ.get("CUDA_VISIBLE_DEVICES") or -1),
            "brought": int(os.environ.get("BROUGHT", 0)),
            "modules": sum(find_spec(name) is not None for name in ("of_the_study", "of_a_library")),
        }


def place_of(rig: Rig, worker: int = 0) -> dict[str, float]:
    return rig.metrics(rig.run(0, worker=worker, evaluations=[0]))[0]


def processes_of(rig: Rig, worker: int = 0) -> list[psutil.Process]:
    """Return the process that trains, the one that keeps it, and its actor's."""
    story = rig.story(rig.run(1, worker=worker, evaluations=[1]))
    [pid] = [event.metrics["pid"] for event in story if isinstance(event, MetricsReported)]
    process = psutil.Process(int(pid))
    return [process, *process.parents()[:2]]


class TestConformance(TrainingConformance):
    """What every executor does, and what else is to be seen of two workers that stay as good as new."""

    @classmethod
    def make_executor(cls) -> Ray:
        return Ray(workers=2)

    def test_an_executor_cannot_be_used_twice_at_a_time(self, rig: Rig, tmp_path: Path) -> None:
        with pytest.raises(HippoError, match="at work already"):
            asyncio.run(rig.executor.start(Job(Noisy, {}, 0, tmp_path), lambda event: None))

    def test_the_last_words_of_a_dead_worker_are_passed_on(self, rig: Rig) -> None:
        rig.run(6, fault="train kill 2")
        reason = rig.wait(WorkerLost).reason
        rig.wait(WorkerJoined)
        assert re.search(
            r"/logs/\d+-node-\d+-step-0.log:\n    \[step 3\]\n    these are the last words", reason
        )

    def test_an_actor_that_dies_takes_its_process_along_and_is_replaced(self, rig: Rig) -> None:
        process, _, actor = processes_of(rig)
        lease = rig.run(9, hold=3)
        rig.gate.wait_for(3)
        actor.kill()
        lost = rig.wait(WorkerLost)
        assert "the actor of slot 0 on node" in lost.reason
        assert lost.kind == "infrastructure"
        assert psutil.wait_procs([process], SECONDS)[1] == []
        rig.wait(WorkerJoined)
        assert not [event for event in rig.unread_of(lease) if isinstance(event, LeaseFinished | LeaseFailed)]
        again = rig.run(2)
        assert rig.story(again)[-1] == LeaseFinished(again, 2)

    def test_rays_own_tools_show_the_actors_their_prints_and_what_is_trained(
        self, rig: Rig, cluster: Nodes
    ) -> None:
        rig.story(rig.run(3, fault="train print 1"))
        assert [name for name in cluster.actors if re.fullmatch(r"hippo/rig/worker-0(\.\d+)?", name)]
        until(lambda: "the trainer is fine" in cluster.logs)
        tags = r"\{[^}]*study=\"rig\"[^}]*trial=\"7\"[^}]*\}"
        until(lambda: re.search(rf"hippo_steps(_total)?{tags} [1-9]", cluster.metrics))
        until(lambda: re.search(rf"hippo_stages(_total)?{tags} [1-9]", cluster.metrics))


# How workers end.


def test_closing_lets_saves_finish_and_leaves_no_process_but_the_users_cluster(
    make_rig: MakeRig, cluster: Nodes
) -> None:
    executor = Ray(workers=1)
    rig = make_rig(executor)
    rig.wait(WorkerJoined)
    processes = processes_of(rig)
    lease = rig.run(20, saves=range(1, 21))
    rig.wait(LeaseFinished, lease=lease)
    rig.close()
    for step in range(1, 21):
        rig.wait(CheckpointSaved, lease=lease, step=step)
    assert psutil.wait_procs(processes, SECONDS)[1] == []
    assert cluster.is_joined
    rig.close()
    rig.run(3)
    again = make_rig(executor)
    again.wait(WorkerJoined)
    again.run(9, hold=3)
    again.gate.wait_for(3)  # closing does not wait for a step


# How many workers there are.


def test_workers_packed_on_one_slot_work_side_by_side_and_one_that_hangs_is_replaced_alone(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(Ray(workers=1, hang_after=3), packing=2)
    for worker in range(2):
        rig.wait(WorkerJoined, worker=worker, slot=0)
    (first, keeper, actor), (second, _, same_actor) = [processes_of(rig, worker) for worker in range(2)]
    assert first != second
    assert actor == same_actor
    rig.run(6, worker=1, fault="train hang 2")
    assert rig.wait(WorkerLost, worker=1).kind == "hung"
    rig.wait(WorkerJoined, worker=1, slot=0)
    assert processes_of(rig, 0) == [first, keeper, actor]
    assert processes_of(rig, 1)[2] == actor


def test_workers_share_a_gpu_and_get_what_a_runtime_environment_brings_to_a_cluster_that_was_joined_before(
    make_rig: MakeRig, cluster: Nodes, tmp_path: Path
) -> None:
    library = tmp_path / "library" / "of_a_library"
    library.mkdir(parents=True)
    (library / "__init__.py").touch()
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "of_the_study.py").touch()
    environment = {
        "env_vars": {"BROUGHT": "7"},
        "working_dir": str(tmp_path / "study"),
        "py_modules": [str(library)],
    }
    executor = Ray(slot={"GPU": 0.5}, workers=2, runtime_env=environment, threads=2)
    rig = make_rig(executor, trainer=Placed)
    for worker in range(2):
        rig.wait(WorkerJoined, worker=worker)
    assert place_of(rig, 0) == place_of(rig, 1) == {"threads": 2, "devices": 0, "brought": 7, "modules": 2}


def test_trials_that_differ_in_their_needs_get_slots_of_different_kinds(
    cluster: Nodes, tmp_path: Path
) -> None:
    kinds = Ray(
        slot=[{"CPU": 1}, {"GPU": 1}],
        resources=lambda hp: {"GPU": 1} if hp["rate"] > 0.2 else {"CPU": 1},
        threads=1,
    )
    with Study("kinds", Placed, home=tmp_path, executor=kinds, version="1") as study:
        assert [study.eval({**CONFIG, "rate": rate}, 1)["devices"] for rate in (0.1, 0.3)] == [-1, 0]
    lacking = Ray(slot=[{"CPU": 1}], resources=lambda hp: {"GPU": 1})
    with (
        Study("lacking", Placed, home=tmp_path, executor=lacking, version="1") as study,
        pytest.raises(InvalidInput, match=r"which no kind of slot has: 1 CPU; give slot= another kind"),
    ):
        study.eval(CONFIG, 1)


class Heard(logging.Handler):
    """Keeps what is said to people."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.put(record.getMessage())


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler = Heard()
    logging.getLogger("hippotune").addHandler(handler)
    yield handler
    logging.getLogger("hippotune").removeHandler(handler)


def test_a_cluster_without_room_is_waited_for_and_a_node_that_does_not_see_the_checkpoints_is_named(
    cluster: Nodes, heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_pool, "_SAY_SECONDS", 0.0)
    others = cluster.hold({"place": 1}), cluster.hold({"place": 1})
    executor = Ray(slot={"place": 1}, workers=1)
    study = Study("blind", Noisy, home=tmp_path, executor=executor, version="1")
    with ThreadPoolExecutor() as pool, study:
        answer = pool.submit(study.eval, CONFIG, 1)
        said = heard.messages.get(timeout=SECONDS)
        assert re.match(
            "waiting for the cluster: it has found room for 0 of 1 slots, each takes 1 place. "
            "Free now: [0-2] of 2 place",  # what Ray says of it comes late
            said,
        )
        [marker] = tmp_path.glob("checkpoints/*/.seen-*")
        marker.unlink()
        for other in others:
            other.release()
        with pytest.raises(TrainerError, match=rf"{socket.gethostname()}.*does not see {marker.parent}"):
            answer.result(timeout=SECONDS)


def test_a_home_that_would_be_gone_with_rays_session_is_refused(cluster: Nodes) -> None:
    home = Path(cluster.session) / "runtime_resources" / "working_dir_files" / ".hippo"
    study = Study("gone", Noisy, home=home, executor=Ray(workers=1), version="1")
    with pytest.raises(InvalidInput, match=r"below the folder of Ray's session.*Study\(home="):
        study.eval(CONFIG, 1)


def test_nodes_that_join_are_used_and_workers_on_nodes_that_leave_are_announced(
    make_rig: MakeRig, cluster: Nodes
) -> None:
    rig = make_rig(Ray(slot={"place": 1}))
    for worker in range(2):
        rig.wait(WorkerJoined, worker=worker)
    assert rig.executor.workers == 2
    rig.run(9, hold=3)
    rig.gate.wait_for(3)
    process = psutil.Process(rig.gate.waiting_process)
    [node] = [node for node in cluster.have(2) if is_on(node, process)]
    cluster.kill(node)
    rig.wait(WorkerLost, worker=0)
    rest = rig.run(4, worker=1)
    assert rig.story(rest)[-1] == LeaseFinished(rest, 4)
    cluster.have(2)
    rig.wait(WorkerJoined, worker=0)
    assert rig.executor.workers == 2


@pytest.mark.parametrize(
    ("node", "slot", "slots"),
    [
        ({"CPU": 8.0}, {"CPU": 1}, 8),
        ({"CPU": 8.0}, {"CPU": 3}, 2),
        ({"CPU": 0.3}, {"CPU": 0.1}, 3),
        ({"CPU": 8.0, "GPU": 2.0}, {"CPU": 1, "GPU": 0.5}, 4),
        ({"CPU": 8.0, "GPU": 2.0}, {"CPU": 1, "GPU": 0.4}, 4),  # two on each; no slot is on both
        ({"CPU": 3.0, "GPU": 4.0}, {"CPU": 1, "GPU": 1}, 3),
        ({"CPU": 8.0, "GPU": 5.0}, {"CPU": 1, "GPU": 2}, 2),
        ({"CPU": 8.0}, {"CPU": 1, "GPU": 1}, 0),
        ({"CPU": 8.0}, {"CPU": 1, "GPU": 0}, 8),
    ],
)
def test_a_node_has_room_for_so_many_slots(
    node: dict[str, float], slot: dict[str, float], slots: int
) -> None:
    assert SlotResources(slot).fit_on(node) == slots


def test_an_actor_imports_no_numpy() -> None:
    look = "import sys, hippotune.executors.ray.actor; print('numpy' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", look], stdout=subprocess.PIPE, text=True, check=True)
    assert said.stdout == "False\n"  # Ray does, where pyarrow is installed


def test_without_ray_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'hippotune\[ray\]'"):
        asyncio.run(Ray().start(Job(Noisy, {}, 0, tmp_path), lambda event: None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0}, "workers is 0; expected a whole number of at least 1"),
        ({"workers": 1.5}, "workers is 1.5"),
        ({"threads": True}, "threads is True"),
        ({"hang_after": 0}, "hang_after is 0; expected seconds above 0"),
        ({"address": 7}, "address is 7"),
        ({"address": "ray://head:10001"}, "ray job submit"),
        ({"slot": {}}, "slot is {}; a slot takes something"),
        ({"slot": {"CPU": 0}}, "a slot takes something"),
        ({"slot": {"cpu": 1}}, "slot has 'cpu'; Ray calls it 'CPU'"),
        ({"slot": {"CPU": -1}}, r"slot\['CPU'\] is -1; expected a finite number at least 0"),
        ({"slot": {"GPU": 1.5}}, "whole GPUs, or a part of one"),
        ({"slot": ["CPU"]}, "expected resources"),
        ({"slot": []}, "expected resources"),
        ({"release_after": -1}, "release_after is -1"),
        ({"resources": {"GPU": 1}}, "resources is {'GPU': 1}; expected a function"),
        ({"runtime_env": "."}, "runtime_env is '.'; expected a dict"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Ray(**arguments)
