"""The figures in the README and in the docs are those of the last results."""

import re
import runpy
from pathlib import Path
from string import Formatter

BENCH = Path(__file__).parents[2] / "bench"


def recipe_of_bench() -> str:
    """Return the part of the Makefile that runs all programs."""
    text = (BENCH.parent / "Makefile").read_text()
    return text[text.index("PROGRAMS :=") : text.index("pictures:")]


def results_named() -> set[str]:
    """Return the results files that texts take figures from."""
    texts = [file.read_text() for file in (BENCH / "tables").glob("*.md")]
    return {field.partition("[")[0] for text in texts for _, field, _, _ in Formatter().parse(text) if field}


def test_pages_say_what_the_results_say():
    tables = runpy.run_path(str(BENCH / "tables.py"))
    measured = tables["results"]()
    for page in tables["PAGES"]:
        assert tables["filled"](page.read_text(), measured) == page.read_text(), page.name


EARLIER = {
    *("chaos", "checkpoint", "exactness", "faults", "guest", "overhead-on-ray"),
    *("page", "proofs", "reopen", "sinks", "soak", "storage"),
}
"""Results that were measured before files were kept: their tables say so."""


def test_every_text_stands_on_one_page_and_its_results_are_kept():
    tables = runpy.run_path(str(BENCH / "tables.py"))
    pages = "".join(page.read_text() for page in tables["PAGES"])
    assert sorted(re.findall(r"<!-- figures: (\S+) -->", pages)) == sorted(
        file.stem for file in (BENCH / "tables").glob("*.md")
    )
    assert results_named() - tables["results"]().keys() == EARLIER


def test_make_bench_writes_every_results_file_that_a_text_names():
    recipe = recipe_of_bench()
    programs = recipe[recipe.index(":=") + 2 : recipe.index("\nbench:")].replace("\\", " ").split()
    written = {*programs, *re.findall(r"measure ([a-z]\S*)", recipe)}
    assert results_named() <= written


def test_make_bench_runs_every_program_but_the_one_that_needs_gpus():
    recipe = recipe_of_bench()
    programs = {file.stem for file in BENCH.glob("*.py") if "\n    run(" in file.read_text()}
    assert {name for name in programs if not re.search(rf"\b{name}\b", recipe)} == {"paper_gpu"}
