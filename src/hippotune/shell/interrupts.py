"""Ctrl-C: the first ends a study in order and in one line, the second ends the process at once."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


@contextmanager
def ending_in_order(line: str | Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C raise `KeyboardInterrupt` in the block, and a second one end the process at once.

    Where the exception is not caught, `line` is shown in place of its traceback, unless it is empty.
    """
    arms = _can_change()
    if arms:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    except KeyboardInterrupt as error:
        _show_instead(error, line if isinstance(line, str) else line())
        raise
    finally:
        if arms:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def end_at_once() -> None:
    """Have the next Ctrl-C end the process: for when it is about to end anyway."""
    if _can_change():
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _can_change() -> bool:
    """Return whether Ctrl-C ends programs here; a session in which commands are typed goes on after it."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        and not (hasattr(sys, "ps1") or sys.flags.interactive)
    )


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # then the system ends the process, and needs nothing of it
    signal.default_int_handler(number, frame)


def _show_instead(interrupt: KeyboardInterrupt, line: str) -> None:
    show = sys.excepthook

    def shown(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if error is not interrupt:
            show(kind, error, trace)
        elif line:
            print(line, file=sys.stderr)

    sys.excepthook = shown
