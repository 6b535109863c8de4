"""The figures in the README and in the docs are those of the last results."""

import runpy
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_pages_say_what_the_results_say():
    tables = runpy.run_path(str(BENCH / "tables.py"))
    measured = tables["results"]()
    for page in tables["PAGES"]:
        assert tables["filled"](page.read_text(), measured) == page.read_text(), page.name
