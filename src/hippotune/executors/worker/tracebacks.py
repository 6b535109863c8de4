"""Tracebacks of exceptions in the user's code: the user's own frames, and none of Hippo's above them."""

from __future__ import annotations

import traceback
from pathlib import Path

from hippotune.errors import HippoError
from hippotune.short import cut

# A message may hold a whole batch. Lines are kept at the beginning and at the end, this many each.
_LONGEST_LINE = 2000
_MOST_LINES = 100
_OURS = str(Path(__file__).resolve().parents[2])


def describe(error: BaseException) -> str:
    """Return the traceback of an exception from the first frame on that is not Hippo's.

    Of a very long one, the middle is left out, and long lines are cut. An exception that Hippo raised itself,
    with no frame of the user's in it, is described by its message, and by what it was raised from.
    """
    written = traceback.TracebackException.from_exception(error)
    if isinstance(error, HippoError) and not _trim(written, error):
        return str(error) if error.__cause__ is None else f"{error}\n\n{describe(error.__cause__)}"
    _trim_chain(written, error)
    return _shortened("".join(written.format()).rstrip("\n"))


def _shortened(text: str) -> str:
    lines = [cut(line, _LONGEST_LINE) for line in text.splitlines()]
    if (left_out := len(lines) - 2 * _MOST_LINES) > 0:
        lines[_MOST_LINES:-_MOST_LINES] = [f"[{left_out:,} lines left out]"]
    return "\n".join(lines)


def _trim_chain(written: traceback.TracebackException, error: BaseException) -> None:
    _trim(written, error)
    for text, earlier in ((written.__cause__, error.__cause__), (written.__context__, error.__context__)):
        if text is not None and earlier is not None:
            _trim_chain(text, earlier)


def _trim(written: traceback.TracebackException, error: BaseException) -> bool:
    """Cut off the leading frames that are Hippo's; return whether others are left.

    Where Hippo raised on purpose, the message is enough, and the last frames go too.
    """
    users = [index for index, frame in enumerate(written.stack) if not frame.filename.startswith(_OURS)]
    if not users:
        return False
    end = users[-1] + 1 if isinstance(error, HippoError) else None
    written.stack[:] = written.stack[users[0] : end]
    return True
