"""The map of the source in CONTRIBUTING.md names every folder, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_map_is_that_of_the_tree() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| (`[a-z/`, ]+`) \|", text, re.MULTILINE)
    named = {folder for row in rows for folder in re.findall(r"`([a-z]+)/`", row)}
    there = {path.parent.name for path in (ROOT / "src" / "hippotune").glob("*/__init__.py")}
    assert named == there


def test_files_that_contributors_are_sent_to_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = set(re.findall(r"`((?:tests|docs|bench|\.ci)/[\w./]*|[a-z]+/[a-z_]+\.py)`", text))
    paths |= set(re.findall(r"\]\(([\w./-]+)\)", text))
    missing = [
        path for path in paths if not (ROOT / path).exists() and not (ROOT / "src/hippotune" / path).exists()
    ]
    assert paths
    assert not missing
