"""Checkpoint files: written once, found whole or not at all.

Under a checkpoint's name there is either nothing or everything that was written: it comes to be by a rename,
after its bytes and its length and checksum are known to be on disk. What a killed process leaves behind lies
under temporary names, which `sweep` removes.

Many processes may save into one directory at the same time, each under names of its own.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hippotune.errors import CheckpointError, InvalidInput
from hippotune.plan.facts import Checkpoint

_TEMPORARY = ".partial"
_FOLDERS = tuple(f"{number:02x}" for number in range(64))
_NAME = re.compile(r"[0-9a-f]{2}/node-[0-9]+-step-[0-9]+")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP})
_SYNC_THREADS = 8
_PROCESS = secrets.token_hex(4)  # temporary names are unique: by this among processes, by a number in one
_NUMBERS = itertools.count()
_FIRST_PIECE, _PIECE = 1 << 16, 1 << 20  # most files are small, and large memory costs time to get
# Libraries that write in native code say only that writing failed. A disk with less room than this is why.
_NO_ROOM = 1 << 20


class DiskFull(CheckpointError):
    """A checkpoint cannot be written because the disk, or the user's share of it, is full."""


def says_disk_full(error: BaseException) -> bool:
    """Return whether an exception, or what it was raised from, says that a disk is full."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, OSError) and link.errno in _FULL:
            return True
        link = link.__cause__ or link.__context__
    return False


def checkpoint_name(node: int, step: int) -> str:
    """Return the name of the checkpoint at a position; names spread evenly over the folders."""
    leaf = f"node-{node}-step-{step}"
    return f"{_FOLDERS[zlib.crc32(leaf.encode()) % len(_FOLDERS)]}/{leaf}"


@dataclass(frozen=True, slots=True)
class Draft:
    """A checkpoint that is written, but neither durable nor to be found under its name."""

    name: str
    path: str
    final: str


class CheckpointFiles:
    """The checkpoints below one directory. A checkpoint is a file or a folder, as its writer pleases."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._prefix = os.path.join(directory, "")
        self._has_folders = False

    def save(self, name: str, write: Callable[[Path], None]) -> Checkpoint:
        """Let `write` make a file or a folder, and keep it under `name`, durably, before returning.

        What was there under that name is replaced. Where `write` raises, nothing is left behind and the
        exception is passed on; a disk that is full raises `DiskFull`.
        """
        return self.keep(self.draft(name, write))

    def save_content(self, name: str, content: Sequence[memoryview]) -> Checkpoint:
        """Do the same as `save` for a file whose content is known, in pieces: nothing is read again."""
        final = self._place(name)
        temporary = _temporary(final)
        try:
            if not self._has_folders:
                self._make_folders()
            checksum = _write_durably(temporary, content)
            _move(temporary, final)
            _sync(os.path.dirname(final))
        except BaseException as error:
            self._clean_up(temporary, name, error)
            raise
        return Checkpoint(name, sum(piece.nbytes for piece in content), checksum)

    def draft(self, name: str, write: Callable[[Path], None]) -> Draft:
        """Do the first half of `save`: let `write` write, under a temporary name."""
        final = self._place(name)
        draft = Draft(name, _temporary(final), final)
        with self._nothing_left_of(draft):
            if not self._has_folders:
                self._make_folders()
            write(Path(draft.path))
        return draft

    def keep(self, draft: Draft) -> Checkpoint:
        """Do the second half of `save`, which may be slow: make a draft durable and give it its name."""
        with self._nothing_left_of(draft):
            try:
                length, checksum = _made_durable(Path(draft.path))
            except FileNotFoundError as error:
                raise CheckpointError(_nothing_written(Path(draft.path))) from error
            _move(draft.path, draft.final)
            _sync(os.path.dirname(draft.final))
        return Checkpoint(draft.name, length, checksum)

    def verify(self, checkpoint: Checkpoint) -> Path:
        """Return where a checkpoint is, having read all of it; `CheckpointError` where it is not whole."""
        path = self._path(checkpoint.name)
        try:
            if not path.exists():
                raise CheckpointError(f"checkpoint {path} is missing")
            length = _length(path)
            if length != checkpoint.bytes:
                raise CheckpointError(
                    f"checkpoint {path} is damaged: it has {length} bytes, {checkpoint.bytes} were written"
                )
            if _checksum(path) != checkpoint.checksum:
                raise CheckpointError(f"checkpoint {path} is damaged: its contents are not what was written")
        except OSError as error:
            raise CheckpointError(f"checkpoint {path} cannot be read: {error}") from error
        return path

    def delete(self, checkpoint: Checkpoint) -> None:
        """Remove a checkpoint; one that is not there is as good as removed."""
        path = self._path(checkpoint.name)
        if path.is_dir():  # never half a folder under the name of a whole one
            path = _set_aside(path)
        _remove(path)

    def names(self) -> Iterator[str]:
        """Yield the names of all checkpoints there are."""
        return (f"{path.parent.name}/{path.name}" for path in self._entries() if path.suffix != _TEMPORARY)

    def sweep(self, known: set[str]) -> list[str]:
        """Remove what is not among the `known` names, temporary files as well; return the names removed.

        Only for a directory that nobody saves into at the moment.
        """
        strays = sorted(self._strays(known))
        for name in strays:
            _remove(self.directory / name)
        return strays

    def strays(self, known: set[str]) -> dict[str, int]:
        """Return what `sweep` would remove, and how many bytes it takes."""
        return {name: _length(self.directory / name) for name in sorted(self._strays(known))}

    def _strays(self, known: set[str]) -> Iterator[str]:
        names = (f"{path.parent.name}/{path.name}" for path in self._entries())
        return (name for name in names if name not in known)

    def _path(self, name: str) -> Path:
        return Path(self._place(name))

    def _place(self, name: str) -> str:
        if not _NAME.fullmatch(name):  # also keeps `delete` from being led anywhere else
            raise InvalidInput(
                f"{name!r} is not a checkpoint's name; expected one like {checkpoint_name(3, 10)!r}"
            )
        return f"{self._prefix}{name}"

    def _entries(self) -> Iterator[Path]:
        for folder in map(self.directory.joinpath, _FOLDERS):
            if folder.is_dir():
                yield from folder.iterdir()

    def _make_folders(self) -> None:
        for folder in _FOLDERS:  # all at once: then this has to be made durable once only
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        _sync(self.directory)
        self._has_folders = True

    @contextmanager
    def _nothing_left_of(self, draft: Draft) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._clean_up(draft.path, draft.name, error)
            raise

    def _clean_up(self, temporary: str, name: str, error: BaseException) -> None:
        """Leave nothing behind of a checkpoint that could not be written."""
        full = self._is_full(error)
        for piece in _written(Path(temporary)):
            _remove(piece)
        if full:
            raise DiskFull(
                f"checkpoint {self.directory / name} cannot be written: the disk is full; "
                f"make room below {self.directory} or move the study's home to a larger disk"
            ) from error

    def _is_full(self, error: BaseException) -> bool:
        if says_disk_full(error):
            return True
        return self.directory.is_dir() and shutil.disk_usage(self.directory).free < _NO_ROOM


def _temporary(final: str | Path) -> str:
    return f"{final}.{_PROCESS}{next(_NUMBERS):x}{_TEMPORARY}"


def _set_aside(path: Path) -> Path:
    return path.rename(_temporary(path))


def _written(temporary: Path) -> list[Path]:
    """Return what was written under a temporary name, with whatever ending a library appended to it."""
    return sorted(temporary.parent.glob(f"{temporary.name}*"))


def _nothing_written(temporary: Path) -> str:
    message = f"save() wrote nothing to the path that it was given, {temporary}"
    if elsewhere := _written(temporary):
        message += (
            f"; it wrote {elsewhere[0]}. Where a library appends an ending, give it an open file instead"
        )
    return message


def _contents(path: Path) -> list[Path]:
    """Return all that is in a folder; nothing for a file."""
    return sorted(path.rglob("*"))


def _length(path: Path) -> int:
    return sum(entry.stat().st_size for entry in (path, *_contents(path)) if not entry.is_dir())


def _checksum(path: Path) -> str:
    """Return a checksum of a file, or of all names and contents of a folder."""
    if path.is_dir():
        return _checksum_of_folder(path)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return _read_through(descriptor)[1]
    finally:
        os.close(descriptor)


def _read_through(descriptor: int) -> tuple[int, str]:
    """Return the length and the checksum of an open file."""
    whole, length = hashlib.blake2b(digest_size=16), 0
    piece = os.read(descriptor, _FIRST_PIECE)
    while piece:
        whole.update(piece)
        length += len(piece)
        piece = os.read(descriptor, _PIECE) if len(piece) >= _FIRST_PIECE else b""
    return length, whole.hexdigest()


def _checksum_of_folder(path: Path) -> str:
    whole = hashlib.blake2b(digest_size=16)
    for entry in _contents(path):
        content = "folder" if entry.is_dir() else _checksum(entry)
        whole.update(os.fsencode(entry.relative_to(path)) + b"\0" + content.encode() + b"\0")
    return whole.hexdigest()


def _write_durably(path: str, content: Iterable[memoryview]) -> str:
    """Write a file, make it durable and return its checksum."""
    whole = hashlib.blake2b(digest_size=16)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        for piece in content:
            whole.update(piece)
            while piece:
                piece = piece[os.write(descriptor, piece) :]
        _sync_open(descriptor)
    finally:
        os.close(descriptor)
    return whole.hexdigest()


def _made_durable(path: Path) -> tuple[int, str]:
    """Make a file or a folder durable, and return its length and its checksum."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = _read_through(descriptor)
        _sync_open(descriptor)
        return found
    except IsADirectoryError:
        _sync_all([path, *_contents(path)])
        return _length(path), _checksum_of_folder(path)
    finally:
        os.close(descriptor)


def _sync_all(paths: list[Path]) -> None:
    """Make files and folders durable; those that are asked for together are written in one go."""
    if len(paths) == 1:  # a thread would cost more than it brings
        _sync(paths[0])
        return
    with ThreadPoolExecutor(min(len(paths), _SYNC_THREADS)) as pool:
        list(pool.map(_sync, paths))


def _sync(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _sync_open(descriptor)
    finally:
        os.close(descriptor)


def _sync_open(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems sync folders by themselves, and only so
        if error.errno not in _UNSUPPORTED:
            raise


def _move(source: str, target: str) -> None:
    """Rename, also onto a folder or from a file to a folder, which a plain rename refuses."""
    try:
        os.replace(source, target)
    except OSError:
        if not os.path.exists(target):
            raise
        old = _set_aside(Path(target))
        os.rename(source, target)
        _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
