"""Files that appear whole or not at all, and that a loss of power does not take away."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP})


@contextmanager
def replacing(target: Path, temporary_name: str | None = None) -> Iterator[Path]:
    """Yield a path beside `target` to write to; at the end of the block, that file takes its place.

    Where the block raises, nothing is left behind, and what was at `target` stays.
    """
    temporary = target.with_name(temporary_name or f".{secrets.token_hex(8)}.partial")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, target)
        sync(target.absolute().parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: str | Path) -> None:
    """Make what was named in a folder, or written to a file, durable."""
    if os.name == "nt" and os.path.isdir(path):
        return  # a folder cannot be opened there
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        sync_open(descriptor)
    finally:
        os.close(descriptor)


def sync_open(descriptor: int) -> None:
    """Make what was written to an open file durable."""
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems sync folders by themselves, and only so
        if error.errno not in _UNSUPPORTED:
            raise
