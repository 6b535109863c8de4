"""The second demo: 448 recorded trials on 40 workers, replayed in virtual time, with the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from hippotune.cli.main import main

EXAMPLE = Path(__file__).parents[1] / "examples" / "recorded.py"


def test_recorded_trials_are_replayed_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["run", str(EXAMPLE), "--no-progress", "--html", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "study recorded: 448 trials, 0 failed" in printed
    assert "13,530 steps asked, 3,386 trained, 10,144 saved (merge rate 4.00)" in printed
    assert "on 40 workers" in printed
    assert "MultiStep(0.5, [60, 90])" in page.read_text()


def test_a_page_that_could_not_be_written_is_refused_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(EXAMPLE), "--html", str(tmp_path / "none" / "page.html")]) == 2
    captured = capsys.readouterr()
    assert "there is no folder" in captured.err
    assert captured.out == ""
