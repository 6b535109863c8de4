"""Files that clients have sent, by their digests: pickled code, and bundles of projects. None is opened here.

A bundle is a ZIP archive of plain files; it is unpacked, once, into a folder of its own for workers. A client
sends its code whenever it begins: what was not used for a day, and is not in use, is removed.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import sys
import threading
import time
import zipfile
from collections.abc import Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from hippotune.durable import replacing
from hippotune.errors import InvalidInput
from hippotune.executors.base import Parcel
from hippotune.serve.definition import Code

PROGRAMS = ("hippotune.serve.probe", "hippotune.serve.tuner")
"""What opens parcels besides workers: all are forked off one process that has imported both."""
_MOST_UNPACKED = 1 << 30
_KEPT_SECONDS = 24 * 3600.0


class CodeRefused(InvalidInput):
    """Code that the server does not take."""


class Blobs:
    """The files below a folder. `allow_code` says whether clients may bring code at all."""

    def __init__(self, folder: Path, allow_code: bool) -> None:
        self._folder = folder
        self._allow_code = allow_code
        self._lock = threading.Lock()

    def check_allowed(self, what: str) -> None:
        """Raise `CodeRefused` where clients may not bring code."""
        if not self._allow_code:
            raise CodeRefused(
                f"{what} is code, and this server runs installed code only. Name the trainer by an entry "
                "point that is installed there and keep the tuner with Study(..., tuner='client'), or have "
                "the server started with --allow-code"
            )

    def put(self, digest: str, content: bytes) -> None:
        """Keep a file."""
        found = hashlib.sha256(content).hexdigest()
        if found != digest:
            raise InvalidInput(f"the file has the digest {found}; expected {digest}, as its address says")
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock, replacing(self._file(digest)) as temporary:
            temporary.write_bytes(content)

    def get(self, digest: str | None) -> bytes:
        """Return a file."""
        file = self._file(digest or "none")
        try:
            with self._lock:
                os.utime(file)
                return file.read_bytes()
        except FileNotFoundError:
            raise InvalidInput(f"there is no file {digest} here; send it first") from None

    def remove_unused(self, needed: Set[str | None]) -> None:
        """Remove what was not used for a day, but for what is `needed`."""
        oldest = time.time() - _KEPT_SECONDS
        for file in [*self._folder.iterdir()] if self._folder.is_dir() else []:
            with self._lock, suppress(OSError):
                if file.name not in needed and file.stat().st_mtime < oldest:
                    shutil.rmtree(self._bundle(file.name), ignore_errors=True)
                    file.unlink()

    def _file(self, digest: str) -> Path:
        return self._folder / digest

    def parcel(self, code: Code) -> Parcel:
        """Return what workers, probes and tuners' processes open to get a trainer."""
        process = None if code.process is None else tuple(sorted(code.process.items()))
        modules = (*code.libraries, *PROGRAMS)
        return replace(self._parcel(code), arguments=code.arguments, modules=modules, process=process)

    def _parcel(self, code: Code) -> Parcel:
        here = tuple(sys.path)
        if code.kind == "entry":
            return Parcel(code.trainer, entry=code.entry, path=here)
        self.check_allowed("a bundle" if code.kind == "bundle" else "a class that is pickled by value")
        if code.kind == "bundle":
            folder = self._unpacked(code.digest)
            own = tuple(str(folder / PurePosixPath(part)) for part in code.path if _is_below(part))
            return Parcel(code.trainer, entry=code.entry, path=(*own, *here))
        theirs = tuple(place for place in code.path if place and Path(place).exists())
        path = (*theirs, *(place for place in here if place not in theirs))
        return Parcel(code.trainer, self.get(code.digest), "", code.by_value, path)

    def _bundle(self, digest: str) -> Path:
        return self._folder.parent / "bundles" / digest

    def _unpacked(self, digest: str | None) -> Path:
        content = self.get(digest)
        with self._lock:  # many clients of one project may begin at once
            return self._unpack(content, self._bundle(str(digest)))

    def _unpack(self, content: bytes, target: Path) -> Path:
        if target.is_dir():
            return target
        temporary = target.with_name(f".{target.name}.partial")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                _check(archive)
                archive.extractall(temporary)
        except zipfile.BadZipFile as error:
            raise InvalidInput(f"the bundle {target.name} is no ZIP archive: {error}") from None
        for path in (temporary, *temporary.rglob("*")):  # workers may run as another user
            path.chmod(0o755 if path.is_dir() else 0o644)
        temporary.rename(target)
        return target


def _check(archive: zipfile.ZipFile) -> None:
    """Refuse what is not a plain file below the folder, and what is too large."""
    total = 0
    for entry in archive.infolist():
        total += entry.file_size
        mode = entry.external_attr >> 16
        is_plain = not stat.S_IFMT(mode) or stat.S_ISREG(mode) or stat.S_ISDIR(mode)
        if not _is_below(entry.filename) or not is_plain:
            raise InvalidInput(f"the bundle has {entry.filename!r}; expected plain files below one folder")
    if total > _MOST_UNPACKED:
        raise InvalidInput(f"the bundle has {total:,} bytes; expected at most {_MOST_UNPACKED:,}")


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name
