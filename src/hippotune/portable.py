"""What not every system has: locks on files, users, forks. Only Linux is tested."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

NOT_THROUGH_LINKS: int = getattr(os, "O_NOFOLLOW", 0)
"""Opens no symbolic link, where the system can tell."""
_BEYOND = 1 << 30  # bytes: Windows locks parts of files, and what is locked cannot be read by others


def lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> None:
    """Lock an open file; `BlockingIOError` where another process has it, unless this is to `wait`.

    The lock ends with the descriptor, and so with its process. On Windows, all are exclusive, and none waits.
    """
    try:
        import fcntl
    except ImportError:
        _lock_on_windows(descriptor)
    else:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)


def _lock_on_windows(descriptor: int) -> None:
    msvcrt: Any = importlib.import_module("msvcrt")
    os.lseek(descriptor, _BEYOND, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        raise BlockingIOError(error.errno, error.strerror) from error


def locks_folders() -> bool:
    """Return whether a folder can be locked."""
    return hasattr(os, "fork")


def user() -> int | None:
    """Return the number of this process's user; None where users have none."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def user_named(name: str) -> tuple[int, int]:
    """Return the numbers of a user and of the user's group. Raises `KeyError` where there is no such user."""
    import pwd

    found = pwd.getpwnam(name)
    return found.pw_uid, found.pw_gid


def after_fork(in_child: Callable[[], None]) -> None:
    """Have a function called in every process that is forked off this one, where the system forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)
