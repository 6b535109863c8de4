"""The pages of the documentation and their blocks of code.

A page is a script: its blocks of Python, from the first to the last. What a page takes for granted is in
given/PAGE.py, up to the line "# The page."; what has to be true afterwards follows that line. Blocks that are
methods (``def train(self)``) become a class below the trainer that is named last: `Methods1`, `Methods2`, …
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from forked import Interpreter

ROOT = Path(__file__).parents[2]
GIVEN = Path(__file__).parent / "given"
PAGES = {
    path.stem: path
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}
_FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_TRAINER = re.compile(r"^class (\w+)\((?:\w+\.)*\w*Trainer\)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code: its language, the file that it is, if any, and its text."""

    language: str
    title: str
    text: str


def blocks_of(page: str, language: str | None = None) -> list[Block]:
    """Return the blocks of a page, from its first to its last."""
    found = [Block(*groups) for groups in _FENCE.findall(PAGES[page].read_text())]
    return [block for block in found if language in (None, block.language)]


def python(page: str) -> list[str]:
    """Return the texts of a page's blocks of Python."""
    return [block.text for block in blocks_of(page, "python")]


def script_of(page: str) -> str:
    """Return the page as a script, with what it takes for granted and what is true afterwards."""
    given = GIVEN / f"{page}.py"
    before, _, after = given.read_text().partition("# The page.\n") if given.exists() else ("", "", "")
    script, methods = before, 0
    for text in python(page):
        if re.match(r"def \w+\(self", text):
            methods += 1
            base = _TRAINER.findall(script)[-1]
            text = f"class Methods{methods}({base}):\n{textwrap.indent(text, '    ')}"
        script += f"\n{text}\n"
    return script + after


def run_page(page: str, folder: Path, forking: Interpreter | None = None) -> None:
    """Run a page as a script in a process of its own; where there is an interpreter, in a fork of that."""
    file = folder / f"{page.lower().replace('-', '_')}_page.py"
    file.write_text(script_of(page))
    if forking is None:
        command = [sys.executable, file]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    else:
        done = forking.run(file, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
