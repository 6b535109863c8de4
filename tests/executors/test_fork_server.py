"""Workers are forked off a process that has imported what they need, and leave it when it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from executors.noisy import Noisy
from executors.rig import Rig
from executors.smooth import Smooth
from hippotune import Local
from hippotune.executors.local import fork_server
from hippotune.executors.local.ahead import expect_workers_of
from hippotune.executors.local.fork_server import ForkRequest, ForkServer, used_by
from hippotune.protocol.events import LeaseFinished, MetricsReported, WorkerJoined, WorkerLost
from waiting import SECONDS, until


def parents_of(rig: Rig, workers: int) -> list[psutil.Process]:
    """Return the process that the keeper of each worker was forked from."""
    leases = [rig.run(1, worker=worker, evaluations=[1]) for worker in range(workers)]
    pids = [int(rig.wait(MetricsReported, lease=lease).metrics["pid"]) for lease in leases]
    return [psutil.Process(pid).parent().parent() for pid in pids]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(Local(workers=2), tmp_path)
    rig.wait(WorkerJoined)
    rig.wait(WorkerJoined)
    yield rig
    rig.close()


def test_all_workers_come_of_one_process_that_has_run_none_of_their_code(rig: Rig) -> None:
    first, second = parents_of(rig, 2)
    assert first == second
    assert first.ppid() == os.getpid()
    assert first.num_threads() == 1


def test_what_is_imported_ahead_is_what_the_trainer_uses() -> None:
    assert "torch" in used_by(Smooth)
    assert "torch" not in used_by(Noisy), "loaded here, and none of its business"


def test_what_a_file_imports_is_imported_ahead_unless_its_workers_do_not_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "study.py"
    file.write_text("import numpy\nimport hippotune as hippo\nexecutor = hippo.Local(workers=1)\n")
    elsewhere = tmp_path / "on_ray.py"
    elsewhere.write_text("import numpy\nfrom hippotune import Ray\nexecutor = Ray(workers=1)\n")
    for each in (elsewhere, file):
        expect_workers_of(each)
    (expected,) = fork_server._expected.values()
    assert expected.modules == ("numpy",)
    monkeypatch.syspath_prepend(str(tmp_path))
    environment = Local(workers=1).environment()
    used = fork_server.warm_up(environment, ("numpy", "hippotune.trainers.base"))
    assert used is expected
    fork_server.expect(environment, ("numpy",))
    assert not fork_server._expected, "there is one that serves"
    fork_server.expect(environment, ("scipy",))
    (unused,) = fork_server._expected.values()
    other = fork_server.warm_up(environment, ())
    assert other is not unused
    assert unused.process.returncode == -signal.SIGKILL
    for server in (used, other):
        server.close()


def test_where_the_server_is_killed_its_workers_are_lost_and_others_come(rig: Rig) -> None:
    (server, _) = parents_of(rig, 2)
    server.send_signal(signal.SIGKILL)
    assert {rig.wait(WorkerLost).worker, rig.wait(WorkerLost).worker} == {0, 1}
    for _ in range(2):
        rig.wait(WorkerJoined)
    lease = rig.run(2)
    assert rig.story(lease)[-1] == LeaseFinished(lease, 2)


def test_a_server_that_ends_at_once_is_an_error_and_no_endless_try(tmp_path: Path) -> None:
    order = ForkRequest("hippotune.executors.worker.__main__:run", (), "worker", tmp_path, str(tmp_path), {})
    with pytest.raises(OSError, match="ends at once, 3 times in a row"):
        fork_server.fork(order, {"PYTHONHOME": str(tmp_path)}, (), [])


def test_what_is_too_much_to_send_is_an_error_of_that_request_alone(tmp_path: Path) -> None:
    server = ForkServer(os.environ, ())
    much = ForkRequest("", (), "", tmp_path, str(tmp_path), {"MUCH": "x" * 10_000_000})
    with pytest.raises(OSError, match="take 10 MB, which is more than a process can be sent"):
        server.fork(much, [])
    assert server.process.poll() is None
    server.close()
    server.process.wait()


def test_a_server_without_work_ends() -> None:
    server = ForkServer(os.environ, (), idle=0.0)
    assert server.process.wait(SECONDS) == 0
    with pytest.raises(EOFError):
        server.fork(ForkRequest("hippotune.executors.worker.__main__:run", (), "worker", Path(), "", {}), [])
    server.close()


def fresh_lineage(rig: Rig) -> list[psutil.Process]:
    """Return what a fresh interpreter, held in its first step, comes of: from its keeper to this process."""
    lease = rig.run(1, fresh=True, hold=0)
    rig.gate.wait_for(0)
    lineage = psutil.Process(rig.gate.waiting_process).parents()
    rig.gate.open()
    assert rig.story(lease)[-1] == LeaseFinished(lease, 1)
    return lineage


@pytest.fixture
def rehearsing(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(Local(workers=1), tmp_path, rehearses=True)
    rig.wait(WorkerJoined)
    yield rig
    rig.close()


two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core, nothing stands by")


@two_cores
def test_fresh_interpreters_come_of_one_process_that_stands_by_for_all_and_workers_do_not(
    rehearsing: Rig, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (server,) = parents_of(rehearsing, 1)
    _, standby, *_ = fresh_lineage(rehearsing)
    assert standby.ppid() == os.getpid()
    assert standby != server
    assert standby in fresh_lineage(rehearsing)
    another = Rig(Local(workers=1), tmp_path_factory.mktemp("another"), rehearses=True)
    another.wait(WorkerJoined)
    assert standby in fresh_lineage(another)
    another.close()


@two_cores
def test_where_nothing_stands_by_any_more_an_interpreter_is_started(rehearsing: Rig) -> None:
    (server,) = parents_of(rehearsing, 1)
    _, standby, *_ = fresh_lineage(rehearsing)
    standby.kill()
    assert server in fresh_lineage(rehearsing)


@two_cores
def test_a_fresh_interpreter_ends_with_its_worker(rehearsing: Rig) -> None:
    (worker,) = [
        psutil.Process(int(rehearsing.wait(MetricsReported, lease=lease).metrics["pid"]))
        for lease in [rehearsing.run(1, evaluations=[1])]
    ]
    rehearsing.run(1, fresh=True, hold=0)
    rehearsing.gate.wait_for(0)
    fresh = psutil.Process(rehearsing.gate.waiting_process)
    fresh.suspend()  # it cannot notice anything itself
    worker.kill()
    until(lambda: not fresh.is_running() or fresh.status() == psutil.STATUS_ZOMBIE)
    rehearsing.gate.open()


def test_servers_that_have_ended_are_forgotten_when_another_is_wanted() -> None:
    environment = {**os.environ, "HIPPO_OF_THIS_TEST": "1"}
    ended = fork_server.warm_up(environment, ())
    ended.process.kill()
    ended.process.wait()
    fork_server.warm_up({**environment, "HIPPO_OF_THIS_TEST": "2"}, ()).give_up()
    assert ended not in fork_server._servers.values()
    with pytest.raises(EOFError):
        ended.fork(ForkRequest("", (), "", Path(), "", {}), [])
