"""A full disk, however far down an error comes of one: what it hinders goes on when room is made."""

from __future__ import annotations

import errno


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error comes of a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if any(text in str(error).lower() for text in ("disk is full", "no space left on device")):
            return True
        error = error.__cause__
    return False
