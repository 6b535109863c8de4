"""What a worker starts and where it writes for a while ends with it, however it or its engine ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from executors.rig import Rig
from hippotune import Local, Trainer
from hippotune.executors.kept import KeptProcess
from hippotune.protocol.events import MetricsReported, WorkerJoined, WorkerLost
from hippotune.scratch import Scratch
from waiting import SECONDS, until

SCRIPT = """
    import sys
    from pathlib import Path
    from executors.rig import Rig
    from executors.test_leftovers import Parent, begin
    from hippotune import Local

    rig = Rig(Local(workers=1), Path(sys.argv[1]), trainer=Parent, settings={"home": sys.argv[1]})
    begin(rig)
    print("begun", flush=True)
    sys.stdin.read()
"""


class Parent(Trainer):
    """Starts processes, one in a session of its own, and stops in the middle of a save."""

    def build(self) -> None:
        home = Path(self.settings["home"])
        for number, alone in enumerate((False, True)):
            child = subprocess.Popen(["sleep", "100000"], start_new_session=alone)
            (home / f"child-{number}").write_text(str(child.pid))

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.values = dict(hp)

    def train(self) -> None:
        pass

    def evaluate(self) -> dict[str, float]:
        return {"pid": os.getpid()}

    def save(self, path: Path) -> None:
        path.mkdir()
        (path / "part").write_text("half of it")
        Path(self.settings["home"], "saving").write_text(str(path))
        signal.pause()

    def load(self, path: Path) -> None:
        raise NotImplementedError


def begin(rig: Rig) -> int:
    """Have a worker begin to save; return the number of its process."""
    rig.wait(WorkerJoined)
    lease = rig.run(2, evaluations=[1], saves=[1])
    process = int(rig.wait(MetricsReported, lease=lease).metrics["pid"])
    until(Path(rig.checkpoints.parent, "saving").exists)
    return process


def started(home: Path) -> list[psutil.Process]:
    return [psutil.Process(int(file.read_text())) for file in home.glob("child-*")]


def expect_nothing_left(home: Path, children: list[psutil.Process]) -> None:
    assert len(children) == 2
    assert psutil.wait_procs(children, SECONDS)[1] == []
    folder = Path((home / "saving").read_text()).parent
    until(lambda: not folder.exists())  # it goes after the processes


def next_one_finds_nothing(home: Path) -> bool:
    with Scratch():
        return not Path((home / "saving").read_text()).parent.exists()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(Local(workers=1), tmp_path, trainer=Parent, settings={"home": str(tmp_path)})
    yield rig
    rig.close()


@pytest.mark.parametrize("killed", ["worker", "keeper"])
def test_a_worker_that_is_killed_leaves_no_process_and_no_temporary_folder(
    rig: Rig, tmp_path: Path, killed: str
) -> None:
    worker = begin(rig)
    children = started(tmp_path)
    os.kill(worker if killed == "worker" else psutil.Process(worker).ppid(), signal.SIGKILL)
    assert "killed by SIGKILL" in rig.wait(WorkerLost).reason
    expect_nothing_left(tmp_path, children)


@pytest.mark.parametrize("killed", ["engine", "engine and keeper"])
def test_an_engine_that_is_killed_leaves_no_process_and_no_temporary_folder(
    tmp_path: Path, killed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
    ) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == b"begun\n"
        children = started(tmp_path)
        servers = psutil.Process(script.pid).children()
        keepers = [keeper for server in servers for keeper in server.children()]
        script.send_signal(signal.SIGSTOP)
        for keeper in keepers if "keeper" in killed else []:
            keeper.kill()
        script.kill()
    if "keeper" in killed:  # then it is for whoever comes next
        until(lambda: next_one_finds_nothing(tmp_path))
    expect_nothing_left(tmp_path, children)


def test_a_keeper_that_still_clears_up_is_not_taken_for_one_that_was_left_over(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("import sys; print('begun', flush=True); sys.stdin.read(); sys.exit(3)")
    log = tmp_path / "log"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with log.open("wb") as output:
        process = KeptProcess("ends", [], environment, output, stdin=subprocess.PIPE)
    until(lambda: log.read_bytes() == b"begun\n")
    (child,) = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGSTOP)
    assert process.stdin is not None
    process.stdin.close()
    until(lambda: child.status() == psutil.STATUS_ZOMBIE)
    with Scratch():  # removes what is left over
        assert process.folder.exists()
    process.send_signal(signal.SIGCONT)
    assert process.wait(SECONDS) == 3
    assert not process.folder.exists()
    process.end()


def test_a_folder_that_a_process_made_goes_with_it_when_it_is_killed(tmp_path: Path) -> None:
    (tmp_path / "makes.py").write_text(
        "import os, signal\n"
        "from hippotune.scratch import Scratch\n"
        "print(Scratch().path, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = KeptProcess("makes", [], {**os.environ, "PYTHONPATH": str(tmp_path)}, output)
    assert process.wait(SECONDS) == -signal.SIGKILL
    made = Path(log.read_text().strip())
    assert made.name.startswith("hippo-scratch-")
    assert not made.exists()
    process.end()


def test_a_folder_of_processes_that_were_all_killed_goes_when_the_next_one_is_made() -> None:
    source = "from hippotune.scratch import Scratch; import os; print(Scratch().path, flush=True); os.abort()"
    killed = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    folder = Path(killed.stdout.strip())
    with Scratch() as one, Scratch() as other:
        assert one.is_dir()
        assert other.is_dir()
        assert killed.stdout
        until(lambda: not folder.exists())  # another process may be removing it


def test_what_a_fresh_interpreter_printed_before_it_was_killed_is_kept_when_its_worker_is_next_started(
    tmp_path: Path,
) -> None:
    logs = tmp_path / "checkpoints" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-0-fresh.log").write_text("these are the last words")
    rig = Rig(Local(workers=1), tmp_path, trainer=Parent, settings={"home": str(tmp_path)})
    until(lambda: [log.read_text() for log in logs.glob("[0-9]*")] == ["these are the last words"])
    rig.close()
    assert not (logs / "worker-0-fresh.log").exists()
