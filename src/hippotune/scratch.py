"""Temporary folders that do not stay: making one removes those that killed processes left.

A folder is locked as long as it is used. Locks end with their processes: one without a lock is left over.
Processes that were started with it, and outlived the one that was to end them, go with it. In a process that
has such a folder, further ones are made inside it, and go with it too, however the process ends.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from hippotune import portable

VARIABLE = "HIPPO_SCRATCH"
"""In workers and all that they start, the environment variable with the folder that goes when they end."""
_PREFIX = "hippo-scratch-"
_MARK = "mark"


class Scratch:
    """A folder. `descriptor` holds its lock, and may be passed on to other processes."""

    def __init__(self) -> None:
        _remove_left_over()
        while not self._make():
            pass

    def _make(self) -> bool:
        """Make a folder; return whether it was locked before another process took it for a left-over one."""
        self.path, self.descriptor = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_parent())), -1
        if not portable.locks_folders():
            return True
        try:
            self.descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        portable.lock(self.descriptor, shared=True, wait=True)
        if self.path.exists():
            return True
        self.release_lock()
        return False

    def release_lock(self) -> None:
        """Leave the lock to the processes that it was passed on to."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def remove(self) -> None:
        """Remove the folder. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release_lock()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


@functools.cache
def place() -> Path:
    """Return a folder for temporary files of this process, which does not outlive it."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    own, owner = Scratch(), os.getpid()
    atexit.register(lambda: own.remove() if os.getpid() == owner else None)
    return own.path


def _parent() -> Path:
    """Return where folders are made: in the one of this process, as long as that is there."""
    own = os.environ.get(VARIABLE)
    return Path(own) if own and os.path.isdir(own) else Path(tempfile.gettempdir())


def _remove_left_over() -> None:
    for folder in _parent().glob(f"{_PREFIX}*") if portable.locks_folders() else ():
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | portable.NOT_THROUGH_LINKS)
            try:
                if os.fstat(descriptor).st_uid == portable.user():
                    portable.lock(descriptor)
                    end_processes(folder)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def end_processes(folder: Path) -> None:
    """Kill the processes that were started with a folder, or one inside it, where the system says which.

    It is in their environment, or, where they were forked and not started anew, they have its mark open.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if _began_with(process / "environ", folder) or any(
                _is_mark(link, folder) for link in (process / "fd").iterdir()
            ):
                os.kill(int(process.name), signal.SIGKILL)


def _began_with(environment: Path, folder: Path) -> bool:
    variable = f"{VARIABLE}=".encode()
    values = [each for each in environment.read_bytes().split(b"\0") if each.startswith(variable)]
    return any(Path(os.fsdecode(value[len(variable) :])).is_relative_to(folder) for value in values)


def mark(folder: Path) -> None:
    """Have this process, and all that is forked from it, found by a folder."""
    os.open(folder / _MARK, os.O_RDONLY | os.O_CREAT)


def _is_mark(link: Path, folder: Path) -> bool:
    with suppress(OSError):  # it was closed
        marked = Path(os.readlink(link).removesuffix(" (deleted)"))
        return marked.name == _MARK and marked.is_relative_to(folder)
    return False
