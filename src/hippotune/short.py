"""Short ways to write things for people: counts, times, sizes, values, sequences, configs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hippotune.sequences.base import Sequence
from hippotune.sequences.config import Config
from hippotune.sequences.constant import Constant
from hippotune.sequences.laws import Flat
from hippotune.sequences.mixtures import written
from hippotune.sequences.values import Value


def plural(count: int, one: str) -> str:
    """Return "1 step", "2 steps", "12,345 steps"."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def listed(names: Iterable[str]) -> str:
    """Return names in quotes, in order: "'lr', 'momentum'"."""
    return ", ".join(map(repr, sorted(names)))


def duration(seconds: float) -> str:
    """Return a time in its two largest units: "45 s", "3 min 05 s", "2 h 07 min", "3 d 04 h"."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole // 60 % 60:02} min"
    return f"{whole // 86400} d {whole // 3600 % 24:02} h"


def roughly(seconds: float) -> str:
    """Return an estimated time in one unit: "50 s", "4 min", "3 h", "5 d"."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 3 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def limits(seconds: Mapping[str, float]) -> list[str]:
    """Return how long there is until limits: "deadline in 12 min", "budget for 50 s"."""
    return [
        f"{name} {'in' if name == 'deadline' else 'for'} {roughly(left)}" for name, left in seconds.items()
    ]


def size(count: int) -> str:
    """Return a number of bytes: "812 B", "1.2 MB", "34 GB"."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if amount < 999.5:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}" if unit != "B" and amount < 9.95 else f"{amount:.0f} {unit}"


def cut(text: str, width: int) -> str:
    """Return the text, with an ellipsis where it is longer than `width`."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def value(of: Value) -> str:
    """Return a value: numbers to four digits, strings as they are, a mixture as "math=0.3 web=0.7"."""
    if isinstance(weights := written(of), dict):
        return " ".join(f"{source}={share:.4g}" for source, share in weights.items())
    return f"{of:.4g}" if isinstance(of, float) else str(of)


def metric(of: float) -> str:
    """Return a metric: five digits tell apart what tuners compare."""
    return f"{of:.5g}"


def sequence(of: Sequence) -> str:
    """Return how a sequence is written; a constant as its value."""
    return value(of.value(0)) if isinstance(of, Constant) else repr(of)


def in_force(of: Sequence, start: int, end: int) -> str:
    """Return what a sequence does at the steps [start, end).

    That is its value where it stays the same, and otherwise the innermost sequence that covers these steps.
    """
    if _stays(of, start, end):
        return value(of.value(start))
    inner, _, ends = of.part(start)
    return sequence(inner if ends >= end else of)


def _stays(of: Sequence, start: int, end: int) -> bool:
    law, ends = of.piece(start)
    while isinstance(law, Flat) and ends < end:
        following, ends = of.piece(ends)
        if following != law:
            return False
    return isinstance(law, Flat)


def config(of: Config, names: Iterable[str]) -> str:
    """Return the sequences of some hyper-parameters: "lr Cosine(0.1, 115) · bs 128"."""
    return " · ".join(f"{name} {sequence(of[name])}" for name in names)


def values(of: Config, step: int, names: Iterable[str]) -> str:
    """Return the values that some hyper-parameters have at a step: "lr 0.05 · bs 128"."""
    return " · ".join(f"{name} {value(of[name].value(step))}" for name in names)
