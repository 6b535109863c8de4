"""The tutorials: what changes where a program is moved to Hippo is little, and what is moved is exact."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

import pytest

from hippotune.cli.script import run_file
from trainers.samples import interrupted, uninterrupted

ROOT = Path(__file__).parents[2]
MOVED = ROOT / "examples" / "moved"


def code_of(name: str) -> list[str]:
    """Return the lines of a file without its docstring, blank lines and indentation."""
    _, _, code = (MOVED / f"{name}.py").read_text().split('"""', 2)
    return [line.strip() for line in code.splitlines() if line.strip()]


@pytest.mark.parametrize("name", ["gpt", "mnist", "lightning"])
def test_the_tutorial_counts_what_changes(name: str) -> None:
    found = list(difflib.ndiff(code_of(f"{name}_before"), code_of(f"{name}_after")))
    written = sum(line.startswith("+ ") for line in found)
    gone = sum(line.startswith("- ") for line in found)
    assert written + gone <= 30
    page = (ROOT / "docs" / "moved.md").read_text()
    assert re.search(rf"`{name}_after\.py`[^\n]*{written} lines written, {gone} gone", page)


def test_what_is_moved_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["hippo"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    moved = run_file(MOVED / "gpt_after.py")
    config = next(iter(moved.tuner.configs()))
    alone = uninterrupted(moved.study.trainer, config, 2)
    assert interrupted(moved.study.trainer, config, ["move", "evaluate"]).agrees_with(alone)
