"""What stood by for one study of a server stands by for the next."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil
import pytest

from hippotune import Study
from hippotune.executors.local import fork_server
from hippotune.executors.local.fork_server import ForkClient
from hippotune.executors.local.process import WorkerProcess
from served.serving import serving, wait_for
from study.walkers import Fine

two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core, nothing stands by")


@two_cores
def test_plans_that_follow_each_other_are_rehearsed_off_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood_by = []
    stand_by = fork_server.stand_by

    def noted(*given: object) -> fork_server.Standby:
        stood_by.append(stand_by(*given))  # type: ignore[arg-type]
        return stood_by[-1]

    monkeypatch.setattr(fork_server, "stand_by", noted)
    for seed in range(2):
        with (
            serving(tmp_path) as running,
            Study("fine", Fine, url=running.url, code="value", tuner="client", seed=seed) as study,
        ):
            assert study.eval({"lr": 1.0}, 2) == {"total": 8.0}
    first, second = stood_by
    assert first is second


def test_who_knew_it_before_has_no_way_to_it_and_nothing_of_before_runs_on(tmp_path: Path) -> None:
    modules = ["hippotune.trainers.base"]
    standby = fork_server.stand_by(os.environ, modules)
    earlier = ForkClient(socket.socket(fileno=os.dup(standby.descriptor)))
    worker = WorkerProcess(0, tmp_path / "log", os.environ, (), modules=earlier)
    forked = psutil.Process(standby.process.pid).children(recursive=True)
    assert forked
    standby.let_go()
    wait_for(lambda: not any(map(psutil.Process.is_running, forked)))
    worker.kill()
    with pytest.raises(EOFError):
        WorkerProcess(0, tmp_path / "log", os.environ, (), modules=earlier)
    again = fork_server.stand_by(os.environ, modules)
    assert again is standby
    WorkerProcess(0, tmp_path / "log", os.environ, (), modules=again).kill()
    again.give_up()
