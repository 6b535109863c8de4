"""What `hippo init` writes runs as it is, and what is there already is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hippotune.cli.main import main


@pytest.mark.parametrize("kind", [[], ["--plain"]])
def test_the_written_study_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "mine.py", *kind]) == 0
    assert "hippo run mine.py" in capsys.readouterr().out
    assert main(["run", "mine.py"]) == 0
    printed = capsys.readouterr().out
    assert "study mine" in printed
    assert "0 failed" in printed
    assert "resumed trials: exact" in printed


def test_a_file_that_exists_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.py").write_text("mine")
    assert main(["init"]) == 2
    assert Path("study.py").read_text() == "mine"
    assert "give another name" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["study", "study.toml", "no/such/folder/study.py"])
def test_names_that_cannot_be(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", name]) == 2
