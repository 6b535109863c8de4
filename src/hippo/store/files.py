"""Checkpoint files: written once, found whole or not at all.

Under a checkpoint's name there is either nothing or everything that was written: it comes to be by a rename,
after its bytes and its length and checksum are known to be on disk. What a killed process leaves behind lies
under temporary names, which `sweep` removes.

Many processes may save into one directory at the same time, each under names of its own.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hippo.errors import CheckpointError, InvalidInput
from hippo.plan.facts import Checkpoint

_TEMPORARY = ".partial"
_FOLDER = re.compile(r"[0-9a-f]{2}")
_NAME = re.compile(r"[0-9a-f]{2}/node-[0-9]+-step-[0-9]+")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP})
# Libraries that write in native code say only that writing failed. A disk with less room than this is why.
_NO_ROOM = 1 << 20


class DiskFull(CheckpointError):
    """A checkpoint cannot be written because the disk, or the user's share of it, is full."""


def checkpoint_name(node: int, step: int) -> str:
    """Return the name of the checkpoint at a position; names spread evenly over 256 folders."""
    leaf = f"node-{node}-step-{step}"
    return f"{zlib.crc32(leaf.encode()) & 0xFF:02x}/{leaf}"


@dataclass(frozen=True, slots=True)
class Draft:
    """A checkpoint that is written, but neither durable nor to be found under its name."""

    name: str
    path: Path


class CheckpointFiles:
    """The checkpoints below one directory. A checkpoint is a file or a folder, as its writer pleases."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def save(self, name: str, write: Callable[[Path], None]) -> Checkpoint:
        """Let `write` make a file or a folder, and keep it under `name`, durably, before returning.

        What was there under that name is replaced. Where `write` raises, nothing is left behind and the
        exception is passed on; a disk that is full raises `DiskFull`.
        """
        return self.keep(self.draft(name, write))

    def draft(self, name: str, write: Callable[[Path], None]) -> Draft:
        """Do the first half of `save`: let `write` write, under a temporary name."""
        final = self._path(name)
        draft = Draft(name, _temporary(final))
        with self._nothing_left_of(draft):
            if not final.parent.is_dir():
                final.parent.mkdir(parents=True, exist_ok=True)
                _sync(self.directory)
            write(draft.path)
            if not draft.path.exists():
                raise CheckpointError(_nothing_written(draft.path))
        return draft

    def keep(self, draft: Draft) -> Checkpoint:
        """Do the second half of `save`, which may be slow: make a draft durable and give it its name."""
        with self._nothing_left_of(draft):
            final = self._path(draft.name)
            length = _length(draft.path)
            checksum = _checksum(draft.path, sync=True)
            _move(draft.path, final)
            _sync(final.parent)
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
        swept = []
        for path in self._entries():
            name = f"{path.parent.name}/{path.name}"
            if name not in known:
                _remove(path)
                swept.append(name)
        return sorted(swept)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):  # also keeps `delete` from being led anywhere else
            raise InvalidInput(
                f"{name!r} is not a checkpoint's name; expected one like {checkpoint_name(3, 10)!r}"
            )
        return self.directory / name

    def _entries(self) -> Iterator[Path]:
        for folder in self.directory.glob("*/"):
            if _FOLDER.fullmatch(folder.name):
                yield from folder.iterdir()

    @contextmanager
    def _nothing_left_of(self, draft: Draft) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            full = self._is_full(error)
            for piece in _written(draft.path):
                _remove(piece)
            if full:
                raise DiskFull(
                    f"checkpoint {self.directory / draft.name} cannot be written: the disk is full; "
                    f"make room below {self.directory} or move the study's home to a larger disk"
                ) from error
            raise

    def _is_full(self, error: BaseException | None) -> bool:
        while error is not None:
            if isinstance(error, OSError) and error.errno in _FULL:
                return True
            error = error.__cause__ or error.__context__
        return self.directory.is_dir() and shutil.disk_usage(self.directory).free < _NO_ROOM


def _temporary(final: Path) -> Path:
    return final.with_name(f"{final.name}.{secrets.token_hex(4)}{_TEMPORARY}")


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


def _contents(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def _length(path: Path) -> int:
    files = _contents(path) if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if not file.is_dir())


def _checksum(path: Path, sync: bool = False) -> str:
    """Return a checksum of a file, or of all names and contents of a folder; with `sync`, make it durable."""
    if not path.is_dir():
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
            if sync:
                os.fsync(file.fileno())
        return digest.hexdigest()
    whole = hashlib.blake2b(digest_size=16)
    for entry in _contents(path):
        name = os.fsencode(entry.relative_to(path))
        content = "folder" if entry.is_dir() else _checksum(entry, sync)
        if sync and entry.is_dir():
            _sync(entry)
        whole.update(name + b"\0" + content.encode() + b"\0")
    if sync:
        _sync(path)
    return whole.hexdigest()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems sync folders by themselves, and only so
        if error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)


def _move(source: Path, target: Path) -> None:
    """Rename, also onto a folder or from a file to a folder, which a plain rename refuses."""
    if target.is_dir() or (source.is_dir() and target.exists()):
        old = _set_aside(target)
        source.rename(target)
        _remove(old)
    else:
        source.replace(target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
