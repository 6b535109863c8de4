"""Temporary folders that do not stay: whoever makes one removes those of processes that were killed.

A folder is locked as long as it is used. Locks end with their processes: one without a lock is left over.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

VARIABLE = "HIPPO_SCRATCH"
"""In workers, the environment variable with the folder that is removed when they end."""
_PREFIX = "hippo-scratch-"


class Scratch:
    """A folder. `descriptor` holds its lock, and may be passed on to other processes."""

    def __init__(self) -> None:
        _remove_left_over()
        made = tempfile.mkdtemp(prefix="hippo-new-")
        self.descriptor = os.open(made, os.O_RDONLY)
        fcntl.flock(self.descriptor, fcntl.LOCK_SH)
        self.path = Path(made.replace("hippo-new-", _PREFIX))  # under a name that is looked for, it is locked
        os.rename(made, self.path)

    def let_go(self) -> None:
        """Leave the lock to the processes that it was passed on to."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def remove(self) -> None:
        """Remove the folder. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.let_go()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _remove_left_over() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
