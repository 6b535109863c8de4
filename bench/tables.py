"""Puts measured figures into the documentation: texts from bench/tables, with figures from bench/results.

A text is Markdown with fields such as ``{peers[figures][grid.hippo.seconds]:.1f}``: the results file, then
the figure in it, then its format. It stands in a page between two comments, and is written anew by this
program:

    <!-- figures: NAME -->
    <!-- end of figures -->

Where a results file that a text names is missing, the figures that stand there are left as they are, below a
line that says so: no check can fail for them.

    python bench/tables.py            write all pages
    python bench/tables.py --check    exit with 1 where a page has other figures than the results
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Any

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PAGES = [HERE.parent / "README.md", DOCS / "benchmarks.md", DOCS / "searching.md", DOCS / "width.md"]
_BLOCK = re.compile(r"(<!-- figures: (\S+) -->\n)(.*?)(<!-- end of figures -->)", re.DOTALL)
EARLIER = (
    "*An earlier measurement, whose results file is not kept: no check compares these figures with it.*\n\n"
)


def results() -> dict[str, Any]:
    """Return all results files by name."""
    return {file.stem: json.loads(file.read_text()) for file in sorted((HERE / "results").glob("*.json"))}


def filled(page: str, measured: Mapping[str, Any]) -> str:
    """Return a page with all of its blocks written anew."""

    def block(found: re.Match[str]) -> str:
        text = (HERE / "tables" / f"{found[2]}.md").read_text()
        named = {field.partition("[")[0] for _, field, _, _ in Formatter().parse(text) if field}
        if missing := sorted(named - measured.keys()):
            print(f"{found[2]} is left as it stands: bench/results lacks {missing}", file=sys.stderr)
            return f"{found[1]}{EARLIER}{found[3].removeprefix(EARLIER)}{found[4]}"
        return f"{found[1]}{text.format_map(measured).rstrip()}\n{found[4]}"

    return _BLOCK.sub(block, page)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 where a page differs"
    )
    options = parser.parse_args()
    measured, differ = results(), []
    for page in PAGES:
        before = page.read_text()
        after = filled(before, measured)
        if after != before:
            differ.append(page.name)
            if not options.check:
                page.write_text(after)
    if options.check and differ:
        sys.exit(f"other figures than in bench/results: {', '.join(differ)}; to write them: bench/tables.py")


if __name__ == "__main__":
    main()
