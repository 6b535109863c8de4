"""What all benchmark programs have in common: figures out, bars checked, `--json` and `--check`.

A program measures and returns figures by name. Its docstring states its bars, which it passes here.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


def run(
    doc: str,
    measure: Callable[[argparse.Namespace], Figures],
    bars: list[Bar],
    arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
) -> None:
    """Parse the command line, measure, print, and exit: 1 with `--check` where a bar is missed."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bar is missed")
    arguments(parser)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers and folders of the program go with it
    figures = measure(options)
    missed = [bar for bar in bars if not bar.met(figures)]
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        width = max(len(name) for name in figures)
        for name, value in figures.items():
            print(f"  {name:<{width}}  {_shown(value)}")
    out = sys.stderr if options.json else sys.stdout
    for bar in bars:
        word = "missed" if bar in missed else "met"
        print(f"{word}: {bar.figure} {bar.relation} {bar.limit:g} ({_shown(figures[bar.figure])})", file=out)
    sys.exit(1 if options.check and missed else 0)


def _shown(value: object) -> str:
    return (
        f"{value:,.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
