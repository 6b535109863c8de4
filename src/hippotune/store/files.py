"""Checkpoint files: written once, found whole or not at all.

A checkpoint's name holds either nothing or the whole checkpoint: it appears by a rename,
after its bytes and its length and checksum are known to be on disk. What a killed process leaves behind lies
under temporary names, which `sweep` removes.

Many processes may save into one directory at the same time, each under names of its own.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hippotune.causes import causes
from hippotune.durable import replacing, sync, sync_open
from hippotune.errors import CheckpointError, InvalidInput, StoreError
from hippotune.plan.facts import Checkpoint
from hippotune.store.digests import DigestWriter, VerifiedFile
from hippotune.store.storage import CheckpointStorage, StorageHome, Write

if TYPE_CHECKING:
    from hippotune.identity.key import PlanKey

MARK = "store.json"
UNKNOWN = ".unknown-"
"""What stands behind a folder's name, and before a mark, where checkpoints were set aside."""
RETIRED = ".removed"
_TEMPORARY = ".partial"
_FOLDERS = tuple(f"{number:02x}" for number in range(64))
_NAME = re.compile(r"[0-9a-f]{2}/node-[0-9]+-step-[0-9]+(-[0-9a-f]{8})?")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FULL_TEXTS = ("disk is full", "no space left on device")  # of databases, and of libraries in native code
_PROCESS = secrets.token_hex(4)  # temporary names are unique: by this among processes, by a number in one
_NUMBERS = itertools.count()
_BUFFER = 1 << 17  # one write for a small checkpoint
# Libraries that write in native code say only that writing failed. A disk with less room than this is why.
_NO_ROOM = 1 << 20


class DiskFull(CheckpointError):
    """A checkpoint cannot be written because the disk, or the user's share of it, is full."""


def says_disk_full(error: BaseException) -> bool:
    """Return whether an exception, or what it was raised from, says that a disk is full."""
    return any(
        isinstance(link, DiskFull)
        or (isinstance(link, OSError) and link.errno in _FULL)
        or any(text in str(link).lower() for text in _FULL_TEXTS)
        for link in causes(error)
    )


def checkpoint_folder(home: Path, key: PlanKey) -> Path:
    """Return the folder of a plan's checkpoints."""
    return home / "checkpoints" / key.digest


def checkpoint_name(node: int, step: int) -> str:
    """Return the name of the checkpoint at a position; names spread evenly over the folders."""
    leaf = f"node-{node}-step-{step}"
    return f"{_FOLDERS[zlib.crc32(leaf.encode()) % len(_FOLDERS)]}/{leaf}"


def new_name(node: int, step: int) -> str:
    """Return a name for one more checkpoint at a position, which no other has."""
    return f"{checkpoint_name(node, step)}-{secrets.token_hex(4)}"


class CheckpointFiles(CheckpointStorage):
    """The checkpoints below one directory, each a file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._prefix = os.path.join(directory, "")
        self._has_folders = False

    @property
    def where(self) -> str:
        """The directory."""
        return str(self.directory)

    def save(self, name: str, write: Write) -> Checkpoint:
        """Write a file, durably."""
        temporary = self.temporary(name)
        with self.written(temporary, name, write, durably=True) as checkpoint:
            final = self._place(name)
            os.replace(temporary, final)
            sync(os.path.dirname(final))
        return checkpoint

    def temporary(self, name: str) -> str:
        """Return a name for a file that is not whole yet, which no other has."""
        return f"{self._place(name)}.{_PROCESS}{next(_NUMBERS):x}{_TEMPORARY}"

    @contextmanager
    def written(
        self,
        temporary: str,
        name: str,
        write: Write,
        durably: bool = False,
        grown: Callable[[int], None] | None = None,
    ) -> Iterator[Checkpoint]:
        """Write a file under a temporary name. Where the block or `write` raises, it is removed.

        `grown` is told now and then how many bytes are in it.
        """
        try:
            if not self._has_folders:
                self._make_folders()
            with open(temporary, "xb", buffering=_BUFFER) as file:
                writer = DigestWriter(file, grown)
                write(writer)  # type: ignore[arg-type]
                length, digest = writer.finish()
                file.flush()
                if durably:
                    sync_open(file.fileno())
            yield Checkpoint(name, length, digest)
        except BaseException as error:
            self._clean_up(Path(temporary), name, error)
            raise

    def read(self, checkpoint: Checkpoint) -> VerifiedFile:
        """Open a file."""
        path = self.path(checkpoint.name)
        try:
            file = open(path, "rb", buffering=0, opener=_open_regular)  # noqa: SIM115
        except FileNotFoundError as error:
            raise CheckpointError(f"checkpoint {path} is missing") from error
        except OSError as error:
            raise CheckpointError(f"checkpoint {path} cannot be read: {error}") from error
        try:
            return VerifiedFile(file, checkpoint.bytes, checkpoint.checksum, str(path))
        except BaseException as error:
            file.close()
            if isinstance(error, OSError):
                raise CheckpointError(f"checkpoint {path} cannot be read: {error}") from error
            raise

    def verify(self, checkpoint: Checkpoint) -> Path:
        """Read all of a file."""
        with self.read(checkpoint) as file:
            file.check()
        return self.path(checkpoint.name)

    def local_path(self, checkpoint: Checkpoint) -> Path:
        """Return the file."""
        return self.path(checkpoint.name).absolute()

    def delete(self, checkpoint: Checkpoint) -> None:
        """Remove a file; one behind a link stays."""
        path = self.path(checkpoint.name)
        if not (self.directory.is_symlink() or path.parent.is_symlink()):
            _remove(path)

    def names(self) -> Iterator[str]:
        """Yield the names of whole files."""
        return (f"{path.parent.name}/{path.name}" for path in self._entries() if path.suffix != _TEMPORARY)

    def sweep(self, known: set[str]) -> list[str]:
        """Remove what is not known, temporary files as well."""
        strays = sorted(self._strays(known))
        for name in strays:
            with suppress(OSError):  # then it is for the next time
                _remove(self.directory / name)
        return strays

    def strays(self, known: set[str]) -> dict[str, int]:
        """Return what `sweep` would remove, and how many bytes it takes."""
        return {name: _length(self.directory / name) for name in sorted(self._strays(known))}

    def set_aside(self, known: set[str], mark: str, look_only: bool = False) -> tuple[int, str]:
        """Move files to another folder."""
        place = self.directory.with_name(f"{self.directory.name}{UNKNOWN}{mark}")
        strays = [name for name in self.names() if name not in known]
        with explained(place):
            for name in () if look_only else strays:
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                os.rename(self.directory / name, place / name)
        return len(strays), str(place)

    def read_mark(self) -> str | None:
        """Read the mark. A directory behind a link is refused: nothing is removed through links."""
        if self.directory.is_symlink():
            raise StoreError(
                f"{self.directory} is a symbolic link, and nothing is removed through links: expected a "
                "folder. Link the home, or the folder 'checkpoints' in it, instead"
            )
        with explained(self.directory), suppress(FileNotFoundError):
            return (self.directory / MARK).read_text()
        return None

    def write_mark(self, text: str) -> None:
        """Replace the mark in one go."""
        name = f"{MARK}.partial"  # one name is enough: the plan's lock is held
        with explained(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            with replacing(self.directory / MARK, name) as temporary:
                temporary.write_text(text)

    def _strays(self, known: set[str]) -> Iterator[str]:
        names = (f"{path.parent.name}/{path.name}" for path in self._entries())
        return (name for name in names if name not in known)

    def path(self, name: str) -> Path:
        """Return the file of a checkpoint."""
        return Path(self._place(name))

    def _place(self, name: str) -> str:
        if not _NAME.fullmatch(name):  # also keeps `delete` from being led anywhere else
            raise InvalidInput(
                f"{name!r} is not a checkpoint's name; expected one like {checkpoint_name(3, 10)!r}"
            )
        return f"{self._prefix}{name}"

    def _entries(self) -> Iterator[Path]:
        for folder in () if self.directory.is_symlink() else map(self.directory.joinpath, _FOLDERS):
            if folder.is_dir() and not folder.is_symlink():
                with explained(folder):
                    yield from folder.iterdir()

    def _make_folders(self) -> None:
        for folder in _FOLDERS:  # all at once: then this has to be made durable once only
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        sync(self.directory)
        self._has_folders = True

    def _clean_up(self, temporary: Path, name: str, error: BaseException) -> None:
        """Leave nothing behind of a checkpoint that could not be written."""
        full = self._is_full(error)
        _remove(temporary)
        if full:
            raise DiskFull(
                f"checkpoint {self.directory / name} cannot be written: the disk is full; "
                f"make room below {self.directory} or move the study's home to a larger disk"
            ) from error

    def _is_full(self, error: BaseException) -> bool:
        if says_disk_full(error):
            return True
        return self.directory.is_dir() and shutil.disk_usage(self.directory).free < _NO_ROOM


class FileHome(StorageHome):
    """Folders below one, each with a plan's files; links are passed over."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def folders(self) -> list[str]:
        """Return the names of the folders."""
        with explained(self._directory):
            return [path.name for path in sorted(self._directory.glob("*/")) if not path.is_symlink()]

    def of(self, folder: str) -> CheckpointFiles:
        """Return a folder."""
        return CheckpointFiles(self._directory / folder)

    def size(self, folder: str) -> int:
        """Return how many bytes a folder takes."""
        return _length(self._directory / folder)

    def retire(self, folder: str) -> str:
        """Rename a folder, in one go."""
        aside = f"{folder}.{secrets.token_hex(4)}{RETIRED}"
        with explained(self._directory / folder):
            (self._directory / folder).rename(self._directory / aside)
        return aside

    def remove(self, folder: str) -> None:
        """Remove a folder."""
        with explained(self._directory / folder):
            shutil.rmtree(self._directory / folder)


@contextmanager
def explained(place: Path) -> Iterator[None]:
    """Raise what a file system complains about as a `StoreError`."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{error.filename or place}: {error.strerror}; check that the disk works, has room and is "
            "writable, and run again: nothing is lost"
        ) from error


def _open_regular(path: str, flags: int) -> int:
    """Open a file; what is no file, such as a named pipe, is not waited for."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", path)


def _length(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder that does not belong here."""
    inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else ()
    return sum(entry.lstat().st_size for entry in (path, *inside) if entry.is_symlink() or not entry.is_dir())


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
