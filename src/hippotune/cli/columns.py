"""Text in columns, for people and for pipes: nothing is cut that a program might want to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime


def aligned(heads: Sequence[str], rows: Iterable[Sequence[str]], left: Iterable[int] = (0,)) -> Iterator[str]:
    """Yield a line for the heads and for each row; columns are right-aligned but for those in `left`."""
    table = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    signs = ["<" if column in left else ">" for column in range(len(heads))]
    for row in table:
        cells = (f"{cell:{sign}{width}}" for cell, sign, width in zip(row, signs, widths, strict=True))
        yield "  ".join(cells).rstrip()


def figure(name: str, number: int | str, remark: str = "") -> str:
    """Return a line that tells one figure."""
    shown = f"{number:,}" if isinstance(number, int) else number
    return f"  {name:<16}{shown:>13}   {remark}".rstrip()


def moment(seconds: float) -> str:
    """Return a time, given in seconds since the epoch, as a clock here shows it."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
