"""What cannot be saved: why, and what to do instead."""

from __future__ import annotations

import ctypes
import io
import socket
import threading
import types
from typing import Any

from hippotune.errors import TrainerError


class Refused(Exception):
    """An object in the state cannot be saved; `subject` is the object, the text says why and what to do."""

    def __init__(self, subject: object, reason: str) -> None:
        super().__init__(reason)
        self.subject = subject


class Unsavable(TrainerError):
    """The trainer's state cannot be saved; the message names what cannot, and the remedy."""


_IN_PREPARE = "make it in prepare(), where it is kept but not saved, or make it a local variable"

_GENERATOR = (
    "is a generator in the middle of its work, which Python cannot save. Keep what it works on and the place "
    "in it on self, as an object with __next__() does, or make a new generator in every train()"
)
_REASONS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType), _GENERATOR),
    ((socket.socket,), f"is a network connection: {_IN_PREPARE} of train()"),
    ((threading.Thread,), f"is a thread: {_IN_PREPARE} of train()"),
    ((ctypes.Array,), "is memory of ctypes, which cannot be saved; keep a NumPy array instead"),
    ((types.FrameType, types.TracebackType), "belongs to running code; keep the values that you need of it"),
)


def may_be_refused(kind: type) -> bool:
    """Return whether objects of a kind may have a reason not to be saved."""
    return issubclass(kind, (io.IOBase, *(each for kinds, _ in _REASONS for each in kinds)))


def reason_of(value: object) -> str | None:
    """Return why an object cannot be saved, where that is known by its kind."""
    for kinds, reason in _REASONS:
        if isinstance(value, kinds):
            return reason
    if isinstance(value, io.IOBase) and _is_open_for_writing(value):
        return (
            "is a file open for writing: what is written to it cannot be taken back when a trial starts from "
            f"a checkpoint. Use self.log(...) for numbers, {_IN_PREPARE} of train()"
        )
    return None


def _is_open_for_writing(file: Any) -> bool:
    if isinstance(file, (io.BytesIO, io.StringIO)) or file.closed:
        return False
    try:
        return bool(file.writable())
    except (OSError, ValueError):
        return False
