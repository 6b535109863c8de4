"""What is said of an exception in the user's code: the user's own frames, and none of ours above them."""

from __future__ import annotations

import traceback
from pathlib import Path

from hippotune.errors import HippoError

_OURS = str(Path(__file__).resolve().parents[2])


def describe(error: BaseException) -> str:
    """Return the traceback of an exception from the first frame on that is not Hippo's.

    An exception that Hippo raised itself, with no frame of the user's in it, is described by its message,
    and by what it was raised from.
    """
    written = traceback.TracebackException.from_exception(error)
    if isinstance(error, HippoError) and not _trim(written):
        return str(error) if error.__cause__ is None else f"{error}\n\n{describe(error.__cause__)}"
    _trim_chain(written)
    return "".join(written.format()).rstrip("\n")


def _trim_chain(written: traceback.TracebackException) -> None:
    _trim(written)
    for earlier in (written.__cause__, written.__context__):
        if earlier is not None:
            _trim_chain(earlier)


def _trim(written: traceback.TracebackException) -> bool:
    """Cut off the leading frames that are Hippo's; return whether others are left."""
    for index, frame in enumerate(written.stack):
        if not frame.filename.startswith(_OURS):
            written.stack[:] = written.stack[index:]
            return True
    return False
