"""The figures in the README and in the docs are those of the last results."""

import re
import runpy
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_pages_say_what_the_results_say():
    tables = runpy.run_path(str(BENCH / "tables.py"))
    measured = tables["results"]()
    for page in tables["PAGES"]:
        assert tables["filled"](page.read_text(), measured) == page.read_text(), page.name


def test_make_bench_runs_every_program_but_the_one_that_needs_gpus():
    text = (BENCH.parent / "Makefile").read_text()
    recipe = text[text.index("PROGRAMS :=") : text.index("pictures:")]
    programs = {file.stem for file in BENCH.glob("*.py") if "\n    run(" in file.read_text()}
    assert {name for name in programs if not re.search(rf"\b{name}\b", recipe)} == {"paper_gpu"}
