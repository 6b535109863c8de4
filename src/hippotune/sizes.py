"""Sizes of files as people write and read them."""

from __future__ import annotations

import re

from hippotune.errors import InvalidInput

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(size: str | int) -> int:
    """Return a size in bytes: ``20_000``, ``"20GB"`` or ``"1.5 GiB"``."""
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is None or match[2].upper() not in _UNITS or float(match[1]) <= 0:
        raise InvalidInput(
            f"checkpoint_budget is {size!r}; expected bytes, or a size such as '20GB' or '512MiB'"
        )
    return int(float(match[1]) * _UNITS[match[2].upper()])


def format_bytes(count: int) -> str:
    """Return a number of bytes: "812 B", "1.2 MB", "34 GB"."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if amount < 999.5:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}" if unit != "B" and amount < 9.95 else f"{amount:.0f} {unit}"
