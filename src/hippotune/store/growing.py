"""A file that is read while it is still being written, so that it can be sent meanwhile."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator

UNIT = mmap.ALLOCATIONGRANULARITY


class Unfinished(Exception):
    """The writer of the file has given up."""


class GrowingFile:
    """Yields a file's content in parts of one length, as they are written. For one reader, in any thread.

    Parts are maps of the file, not copies of it; their length is a multiple of `UNIT`.
    """

    def __init__(self, path: str, part: int) -> None:
        self._path = path
        self._part = part
        self._length = 0
        self._is_whole: bool | None = None
        self._changed = threading.Condition()

    def grow(self, length: int) -> None:
        """The file has this many bytes now."""
        with self._changed:
            self._length = length
            self._changed.notify()

    def end(self, is_whole: bool) -> None:
        """Nothing more is written."""
        with self._changed:
            if self._is_whole is None:
                self._is_whole = is_whole
            self._changed.notify()

    def __iter__(self) -> Iterator[mmap.mmap]:
        self._wait_for(1)
        with open(self._path, "rb", buffering=0) as file:
            sent = 0
            while (length := self._wait_for(sent + self._part)) > sent:
                size = min(self._part, length - sent)
                yield mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ, offset=sent)
                sent += size

    def _wait_for(self, length: int) -> int:
        """Wait until this much is there, or all; return how much is."""
        with self._changed:
            self._changed.wait_for(lambda: self._length >= length or self._is_whole is not None)
            if self._is_whole is False:
                raise Unfinished
            return self._length
