"""Every block of Python on the pages runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import GIVEN, PAGES, ROOT, python, run_page

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


@pytest.mark.parametrize("page", SCRIPTS)
def test_the_page_runs_as_a_script(page: str, tmp_path: Path) -> None:
    run_page(page, tmp_path)


def test_pages_that_are_tested_elsewhere_are() -> None:
    for page, file in ELSEWHERE.items():
        assert f'"{page}"' in (ROOT / file).read_text()


def test_nothing_is_given_to_a_page_that_is_not_there() -> None:
    assert {path.stem for path in GIVEN.glob("*.py")} <= set(SCRIPTS)
