"""Files that appear whole or not at all, that a loss of power does not take away, and their names."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from hippotune import portable

_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP})


def file_name(text: str, most: int) -> str:
    """Return a name for a file of any text, another one for each; what is above `most` characters is cut."""
    name = quote(text, safe=" ()=,+@", errors="replace")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > most:
        name = f"{name[:most]}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]}"
    return name


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


def make_once(path: Path, content: bytes) -> None:
    """Put a file there for its owner only, whole from the first moment on; one that is there stays."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.partial")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        if portable.user() is not None:
            os.fchmod(descriptor, 0o600)
        os.write(descriptor, content)
        os.fsync(descriptor)
        with suppress(FileExistsError, FileNotFoundError):  # another process has made one meanwhile
            os.link(temporary, path)
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
    sync(path.parent)


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
