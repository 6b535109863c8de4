"""Every block of Python on the pages runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.pages import GIVEN, PAGES, ROOT, python, run_page, script_of
from forked import TORCH, WORKERS, Interpreter, interpreter

ELSEWHERE = {
    "adapters": "tests/adapters/test_page.py",
    "branching": "tests/study/test_branching_page.py",
    "server": "tests/served/test_page.py",
    "trainers": "tests/trainers/test_documentation.py",
    "tutorial": "tests/test_stranger.py",
    "writing-a-tuner": "tests/tuners/test_documentation.py",
}
"""Pages whose tests say more than that they run."""

SCRIPTS = [page for page in PAGES if python(page) and page not in ELSEWHERE]


@pytest.fixture(scope="module")
def forking() -> Iterator[dict[bool, Interpreter]]:
    """What has imported Hippo, and what has imported torch too."""
    with interpreter() as plain, interpreter(TORCH + WORKERS) as torch:
        yield {False: plain, True: torch}


@pytest.mark.parametrize("page", SCRIPTS)
def test_the_page_runs_as_a_script(page: str, tmp_path: Path, forking: dict[bool, Interpreter]) -> None:
    run_page(page, tmp_path, None if page == "README" else forking["torch" in script_of(page)])


def test_pages_that_are_tested_elsewhere_are() -> None:
    for page, file in ELSEWHERE.items():
        assert f'"{page}"' in (ROOT / file).read_text()


def test_nothing_is_given_to_a_page_that_is_not_there() -> None:
    assert {path.stem for path in GIVEN.glob("*.py")} <= set(SCRIPTS)
