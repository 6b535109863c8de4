"""A client whose server is away says what it waits for; a command that never reached one does not wait."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hippotune.cli.main import main
from hippotune.serve.client.api import Api
from served.serving import ServerProcess, fill, free_port, serving
from served.test_commands import STUDY
from waiting import until

CLIENT = """
import sys
from served import slow
from hippotune import GridSearch, Study
study = Study("waits", getattr(slow, sys.argv[3]), url=sys.argv[1], code="value", tuner=sys.argv[2])
space = {"lr": [0.1, 0.2, 0.3], "bs": [16]}
report = study.tune(GridSearch(space, metric="loss", mode="min", max_steps=10))
print([trial.step for trial in report.trials])
"""


@contextmanager
def client(url: str, tuner: str = "server", trainer: str = "SlowWalker") -> Iterator[subprocess.Popen[str]]:
    """Tune a study by a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, url, tuner, trainer],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Return the first line of standard error with these words."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return line
    raise AssertionError("".join(lines))


@pytest.mark.parametrize("tuner", ["server", "client"])
def test_a_client_says_what_it_waits_for_and_that_it_goes_on(tmp_path: Path, tuner: str) -> None:
    with (
        ServerProcess(tmp_path / "home", is_started=False) as server,
        client(server.url, tuner) as process,
    ):
        line = read_until(process, "waiting for the server")
        assert server.url in line
        assert "Connection refused" in line
        server.start()
        assert server.url in read_until(process, "going on")
        server.kill()
        assert "Connection refused" in read_until(process, "waiting for the server")
        server.start()
        out, rest = process.communicate(timeout=200)
        assert out == "[10, 10, 10]\n"
        assert rest.count("waiting for the server") == 0


def test_a_client_of_a_server_whose_disk_is_full_says_so(small_disk: Path) -> None:
    with serving(small_disk / "home") as running:
        fill(small_disk / "ballast")
        with client(running.url) as process:
            assert "No space left on device" in read_until(process, "waiting for the server")
            (small_disk / "ballast").unlink()
            out, _ = process.communicate(timeout=200)
            assert out == "[10, 10, 10]\n"


def test_a_checkpoint_without_room_is_told_in_a_sentence(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with serving(small_disk / "home") as running, client(running.url, "client", "HeavyWalker") as process:
        wait_for_steps(running.url, 2)
        fill(ballast, room=1 << 19)  # for facts, and for no checkpoint
        assert "disk is full" in read_until(process, "the server cannot go on")
        ballast.unlink()
        assert process.stdout is not None
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        assert process.stdout.read() == "[10, 10, 10]\n"


def test_who_leaves_while_the_server_is_away_is_not_told_that_the_study_goes_on_there(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "home", is_started=False) as server:
        with client(server.url) as process:
            read_until(process, "waiting for the server")
            process.send_signal(signal.SIGINT)
            assert "left before the server at" in process.communicate(timeout=200)[1]
        server.start()
        with client(server.url) as process:
            wait_for_steps(server.url, 0)  # by then the client knows that the server has the study
            server.kill()
            read_until(process, "waiting for the server")
            process.send_signal(signal.SIGINT)
            assert "goes on when a server is at" in process.communicate(timeout=200)[1]


def wait_for_steps(url: str, steps: int) -> None:
    """Wait until more steps than these were trained."""
    api = Api(url)
    until(lambda: [plan for plan in api.call("GET", "/plans", None, list) if plan["trained"] > steps])


@pytest.mark.parametrize("command", ["attach", "submit"])
@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_a_command_whose_server_was_never_there_says_so(
    tmp_path: Path, command: str, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "adds.py").write_text(STUDY)
    what = {"attach": "adds", "submit": str(tmp_path / "adds.py")}[command]
    url = f"http://{host}:{free_port()}"
    assert main([command, what, "--url", url]) == 2
    said = capsys.readouterr().err
    assert f"the server at {url} cannot be reached" in said
    assert said.count("\n") == 1
