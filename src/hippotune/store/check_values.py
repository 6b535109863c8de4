"""Check values of rows: a number that is another one if anything in a row is.

They find mistakes and damaged disks. They do not stop a person from changing a row: they can make the number
too.
"""

from __future__ import annotations

import zlib
from typing import Any

Row = tuple[Any, ...]
DAMAGED = (
    "something else has changed it, or the disk has. See all that is damaged with hippo doctor; put a backup "
    "back, or remove what is damaged with hippo doctor --repair: it is then trained or measured again"
)

MISSING = "something else has removed them. See all that is lost with hippo doctor; put a backup back"


def check_value(row: Row) -> int:
    """Return the number for a row. Columns that are added later do not count while they are empty."""
    last = len(row)
    while last and row[last - 1] is None:
        last -= 1
    return zlib.crc32(ascii(row[:last]).encode())


def is_changed(row: Row) -> bool:
    """Whether a row that is written more than once is not what was written last, as far as it has a value."""
    return row[-1] is not None and is_damaged(row)


def is_damaged(row: Row) -> bool:
    """Whether a row, with its check value at the end, is not what was written."""
    return bool(check_value(row[:-1]) != row[-1])
