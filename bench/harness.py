"""What all benchmark programs have in common: figures out, bars checked, `--json` and `--check`.

A program measures and returns figures by name. Its docstring states its bars, which it passes here. With
``--json FILE`` the figures are written to a file, with the command, the machine and the time beside them; the
tables of the documentation are made from the files in bench/results (`tables.py`). A figure that is a mapping
is a table of its own, which the program prints itself.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Bar:
    """A limit for one figure."""

    figure: str
    relation: Literal["at most", "at least"]
    limit: float

    def met(self, figures: Figures) -> bool:
        value = float(figures[self.figure])
        return value <= self.limit if self.relation == "at most" else value >= self.limit


def at_least(least: int) -> Callable[[str], int]:
    """Return what reads a whole number from a command line, and refuses smaller ones."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return int(text)

    return number


def run(
    doc: str,
    measure: Callable[[argparse.Namespace], Figures],
    bars: list[Bar] | Callable[[argparse.Namespace], list[Bar]],
    arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
) -> None:
    """Parse the command line, measure, print, and exit: 1 with `--check` where a bar is missed."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="print the figures as JSON, or write them to a file",
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bar is missed")
    arguments(parser)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers and folders of the program go with it
    command, began = list(sys.argv), time.monotonic()  # loading a script replaces sys.argv
    figures = measure(options)
    bars = bars(options) if callable(bars) else bars
    missed = [bar for bar in bars if not bar.met(figures)]
    if options.json == "-":
        print(json.dumps(figures, indent=2))
    elif options.json:
        write(Path(options.json), command, figures, time.monotonic() - began, missed)
    else:
        shown = {name: value for name, value in figures.items() if not isinstance(value, Mapping)}
        width = max(map(len, shown))
        for name, value in shown.items():
            print(f"  {name:<{width}}  {_shown(value)}")
    out = sys.stderr if options.json else sys.stdout
    for bar in bars:
        word = "missed" if bar in missed else "met"
        print(f"{word}: {bar.figure} {bar.relation} {bar.limit:g} ({_shown(figures[bar.figure])})", file=out)
    sys.exit(1 if options.check and missed else 0)


def write(file: Path, command: list[str], figures: Figures, seconds: float, missed: list[Bar]) -> None:
    """Write a results file: the figures, and where they come from."""
    command = [Path(command[0]).name, *command[1:]]
    for option in ("--check", "--json", str(file)):
        command = [word for word in command if word != option]
    results = {
        "command": shlex.join(["bench/" + command[0], *command[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "minutes": round(seconds / 60, 1),
        "missed": ", ".join(f"{bar.figure} {bar.relation} {bar.limit:g}" for bar in missed) or "none",
        "figures": {name: _rounded(value) for name, value in figures.items()},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(results, indent=1) + "\n")


def _rounded(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _shown(value: object) -> str:
    return (
        f"{value:,.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
