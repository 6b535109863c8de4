"""The other demos: recorded trials in virtual time, with the page; and two clients of one server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hippotune.cli.main import main

EXAMPLE = Path(__file__).parents[1] / "examples" / "recorded.py"


def test_recorded_trials_are_replayed_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["run", str(EXAMPLE), "--no-progress", "--html", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "study recorded: 448 trials, 0 failed" in printed
    assert "13,530 steps requested, 3,386 trained, 10,144 saved (merge rate 4.00)" in printed
    assert "on 40 workers" in printed
    assert "MultiStep(0.5, [60, 90])" in page.read_text()


def test_a_page_that_could_not_be_written_is_refused_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(EXAMPLE), "--html", str(tmp_path / "none" / "page.html")]) == 2
    captured = capsys.readouterr()
    assert "there is no folder" in captured.err
    assert captured.out == ""


def test_two_clients_share_one_server() -> None:
    program = EXAMPLE.with_name("two_clients.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("ann", "bob"):
        assert f"{name} has submitted a study of 4 trials" in done.stdout
        assert f"study {name}: 4 trials, 0 failed" in done.stdout
    assert "together they asked for 480 steps" in done.stdout
    assert "on 1 plan" in done.stdout
