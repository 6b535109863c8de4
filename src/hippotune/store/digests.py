"""Files whose content is known by a digest: written with it, and read only as far as it is right.

A file ends with the SHA-256 digests of its pieces of 4 MiB; its own digest is that of this list and of the
length. So a reader that knows the digest can check every piece as it reads it, before anything is made of
it: what was checked is what is loaded, in one pass, also where others can write to the storage meanwhile.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from typing import Any, BinaryIO

from hippotune.errors import CheckpointError

PIECE = 4 << 20
_LENGTH = hashlib.sha256().digest_size


def file_digest(pieces: bytes, length: int) -> str:
    """Return the digest of a file from its size and the digests of its pieces, in order."""
    return hashlib.sha256(length.to_bytes(8, "little") + pieces).hexdigest()


def content_length(length: int) -> int:
    """Return where the digests of a file of `length` bytes begin."""
    return length - max(1, -(-length // (PIECE + _LENGTH))) * _LENGTH


class DigestWriter(io.RawIOBase):
    """Writes a file from start to end, and keeps the digests of its pieces.

    `grown` is told how many bytes are in the file, after every piece.
    """

    def __init__(self, file: BinaryIO, grown: Callable[[int], None] | None = None) -> None:
        self._file = file
        self._grown = grown
        self._piece = hashlib.sha256()
        self._room = PIECE
        self._pieces: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, content: Any) -> int:
        """Write all of it."""
        view = memoryview(content).cast("B")
        length = len(view)
        while view:
            part, view = view[: self._room], view[self._room :]
            self._piece.update(part)
            self._file.write(part)
            self._room -= len(part)
            if self._room == 0:
                self._end_piece()
        self._length += length
        return length

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._length

    def finish(self) -> tuple[int, str]:
        """Write the digests; return the length of the file, and its digest."""
        if self._room < PIECE or not self._pieces:
            self._end_piece()
        pieces = b"".join(self._pieces)
        self._file.write(pieces)
        return self._length + len(pieces), file_digest(pieces, self._length)

    def _end_piece(self) -> None:
        self._pieces.append(self._piece.digest())
        self._piece = hashlib.sha256()
        self._room = PIECE
        if self._grown is not None:
            self._file.flush()
            self._grown(self._file.tell())


class VerifiedFile(io.RawIOBase):
    """The content of such a file, without its digests; reading raises `CheckpointError` where it is wrong."""

    def __init__(self, file: BinaryIO, length: int, digest: str, name: str) -> None:
        """Read a file of `length` bytes, digests included."""
        self._file = file
        self._name = name
        self._content = content_length(length)
        self._place = 0
        self._buffer = memoryview(bytearray(min(PIECE, max(self._content, 0))))
        self._held: int | None = None
        found = os.fstat(file.fileno()).st_size
        if found != length or self._content < 0:
            raise CheckpointError(
                f"checkpoint {name} is damaged: it has {found} bytes, {length} were written"
            )
        file.seek(self._content)
        self._pieces = file.read(length - self._content)
        if file_digest(self._pieces, self._content) != digest:
            raise self._damaged()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._content}[whence]
        self._place = max(0, start + offset)
        return self._place

    def tell(self) -> int:
        """Return the place."""
        return self._place

    def readinto(self, target: Any) -> int:
        """Read what was checked."""
        view = memoryview(target).cast("B")
        done = 0
        while done < len(view) and self._place < self._content:
            number, start = divmod(self._place, PIECE)
            piece = self._piece(number)[start : start + len(view) - done]
            view[done : done + len(piece)] = piece
            done += len(piece)
            self._place += len(piece)
        return done

    def check(self) -> None:
        """Read all of it."""
        for number in range(-(-self._content // PIECE)):
            self._piece(number)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def _piece(self, number: int) -> memoryview:
        length = min(PIECE, self._content - number * PIECE)
        piece = self._buffer[:length]
        if self._held != number:
            self._held = None
            self._file.seek(number * PIECE)
            digest = self._pieces[number * _LENGTH : (number + 1) * _LENGTH]
            if self._file.readinto(piece) != length or hashlib.sha256(piece).digest() != digest:  # type: ignore[attr-defined]
                raise self._damaged()
            self._held = number
        return piece

    def _damaged(self) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {self._name} is damaged: its content is not what this plan's workers wrote"
        )
