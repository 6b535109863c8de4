"""The commands: submit starts a server, attach follows, ls, show and export read from it, stop ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from hippotune import portable
from hippotune.cli.main import main
from hippotune.errors import StoreError
from hippotune.store.served import ServedHome, refuse_served, served_at
from postgres import postgresql_server
from served.serving import ServerProcess, serving
from waiting import until

STUDY = """
import hippotune as hippo

class Adds(hippo.Trainer):
    def build(self):
        self.total = 0.0
    def setup(self, hp):
        self.lr = hp["lr"]
    def train(self):
        self.total += self.lr
    def evaluate(self):
        return {"total": self.total}

study = hippo.Study("adds", Adds, executor=hippo.Local(1))
tuner = hippo.GridSearch({"lr": [0.5, 1.0]}, metric="total", mode="max", max_steps=4)
"""


def hippo(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "hippotune", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def hippo_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command in this process, which has imported all that it needs."""

    def hippo_here(folder: Path, *arguments: str) -> str:
        monkeypatch.chdir(folder)
        capsys.readouterr()
        assert main(arguments) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return hippo_here


def test_a_study_is_submitted_followed_read_and_stopped(
    tmp_path: Path, hippo_here: Callable[..., str]
) -> None:
    (tmp_path / "adds.py").write_text(STUDY)
    home = tmp_path / ".hippo"
    said = hippo(tmp_path, "submit", "adds.py")
    try:
        url = served_at(home)
        assert url
        assert f"started a server for .hippo at {url}" in said
        assert "submitted: adds" in said
        report = hippo(tmp_path, "attach", "adds", "--no-progress")
        assert "best: trial 1 at step 4: total 4" in report
        assert hippo_here(tmp_path, "attach", "adds", "--url", url, "--no-progress") == report
        assert "total 4" in hippo_here(tmp_path, "ls", "--url", url)
        shown = hippo_here(tmp_path, "show", "adds", "--url", url)
        assert "best" in shown
        table = hippo_here(tmp_path, "export", "adds", "--url", url)
        assert table.splitlines()[0] == "study,trial,step,config.lr,total,error"
        assert "submitted: adds" in hippo_here(tmp_path, "submit", "adds.py")  # the same server
    finally:
        hippo(tmp_path, "stop")
    until(lambda: served_at(home) is None)
    assert "total 4" in hippo_here(tmp_path, "show", "adds")


def test_a_server_that_is_started_has_the_store_of_the_study(
    tmp_path: Path, hippo_here: Callable[..., str]
) -> None:
    home = tmp_path / ".hippo"
    with postgresql_server() as server:
        store = server.url % "postgres"
        with_password = store.replace("hippo@", "hippo:s%2Fcret@")
        (tmp_path / "adds.py").write_text(STUDY.replace("Adds, exec", f"Adds, store={with_password!r}, exec"))
        hippo(tmp_path, "submit", "adds.py")
        try:
            commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
            ours = next(" ".join(each) for each in commands if "serve" in each and store in each)
            assert "cret" not in ours
            hippo_here(tmp_path, "attach", "adds", "--no-progress")
        finally:
            hippo_here(tmp_path, "stop")
            until(lambda: served_at(home) is None)
        assert "total 4" in hippo_here(tmp_path, "ls", "--store", store)
    assert not list(home.glob("*.sqlite*"))


CALLS = "import numpy as np\n" + STUDY.replace("+= self", "+= np.ones(1)[0] * self")
CALLS += "state = np.random.get_state()\nnp.random.set_state(state)\n"


def test_submit_says_what_workers_do_not_call(tmp_path: Path) -> None:
    (tmp_path / "calls.py").write_text(CALLS)
    with serving(tmp_path / "home", hold=True) as running:
        said = hippo(tmp_path, "submit", "calls.py", "--url", running.url)
    assert "np.random.set_state(state) is not called in them" in said


@pytest.mark.parametrize(
    ("executor", "named"),
    [("Ray()", "Ray"), ("Pool(2).executor()", "Pool"), ("Local(1, threads=2)", "threads=")],
)
def test_an_executor_that_a_server_is_not_started_with_is_refused(
    tmp_path: Path,
    executor: str,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("adds.py").write_text(STUDY.replace("hippo.Local(1)", f"hippo.{executor}"))
    status = main(["submit", "adds.py"])
    if started := served_at(tmp_path / ".hippo"):
        hippo(tmp_path, "stop")
    assert started is None
    assert status != 0
    said = capsys.readouterr().err
    assert named in said
    assert "hippo serve --home .hippo --executor" in said


def test_after_a_server_was_killed_submit_starts_another_one_and_names_that(
    tmp_path: Path, hippo_here: Callable[..., str]
) -> None:
    (tmp_path / "adds.py").write_text(STUDY)
    home = tmp_path / ".hippo"
    hippo_here(tmp_path, "submit", "adds.py")
    hippo_here(tmp_path, "attach", "adds", "--no-progress")
    dead = served_at(home)
    os.kill(json.loads((home / "server.json").read_text())["pid"], signal.SIGKILL)
    until(lambda: served_at(home) is None)
    said = hippo_here(tmp_path, "submit", "adds.py")
    try:
        assert served_at(home) != dead
        assert f"started a server for .hippo at {served_at(home)}" in said
        assert "best: trial 1" in hippo_here(tmp_path, "attach", "adds", "--no-progress")
    finally:
        hippo_here(tmp_path, "stop")


def test_a_server_that_starts_is_not_found_under_the_address_of_a_dead_one(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "home") as server:
        assert served_at(tmp_path / "home") == server.url
        server.kill()
        starting = ServedHome(tmp_path / "home")
        assert served_at(tmp_path / "home") == ""
        with pytest.raises(StoreError, match="belongs to a server that is starting"):
            refuse_served(tmp_path / "home")
        starting.release()


def test_a_server_starts_while_its_home_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ServedHome(tmp_path).release()
    looks = os.open(tmp_path / "locks" / "server.lock", os.O_RDONLY)
    portable.lock(looks, shared=True)
    pauses = iter([looks])

    def sleep(_: float) -> None:
        for descriptor in pauses:  # the first pause ends the look
            os.close(descriptor)

    monkeypatch.setattr("hippotune.store.served.time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    ServedHome(tmp_path).release()
