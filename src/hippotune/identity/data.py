"""A study's data by its content: ``Study(data=…)``.

A `pathlib.Path`, or text that names a file or folder that exists, stands for what is in it: the digest of the
file, or of all files of the folder with their names below it. All other text (a URL, a version) stands for
itself; text that can only be a path (``/…``, ``./…``, ``../…``, ``~…``) must exist.

Digests of files are remembered by path, size, time of change and inode, in this process and in a file in the
study's home. So a large folder is read once, and looked through afterwards. A file that was changed in the
last two seconds is not remembered: it could change again without a trace.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hippotune.durable import replacing
from hippotune.errors import InvalidInput

FILE_NAME = "data-digests.json"
_SETTLED_SECONDS = 2.0
_remembered: dict[str, list[object]] = {}


def data_text(data: object, home: Path, remember: bool = False) -> str:
    """Return what `data` is to the key of a plan. With `remember`, digests of files are kept in `home`."""
    if data is None:
        return ""
    if not isinstance(data, str | os.PathLike) or not os.fspath(data):
        raise InvalidInput(f"data is {data!r}; expected a path, a URL or a version, as text or pathlib.Path")
    path = Path(data).expanduser()
    if isinstance(data, str) and ("://" in data or not (_is_path(data) or path.exists())):
        return f"name {data}"
    if not path.exists():
        raise InvalidInput(
            f"data is {os.fspath(data)!r}, which does not exist; expected a file or folder that does, "
            "or a URL or version as text"
        )
    cache = home / FILE_NAME
    _recall(cache)
    before = dict(_remembered)
    if path.is_dir():
        whole = hashlib.sha256()
        for file in _files(path):
            whole.update(
                f"{file.relative_to(path).as_posix()}\0{file_digest(file)}\n".encode(errors="surrogateescape")
            )
        text = f"folder {whole.hexdigest()[:32]}"
    else:
        text = f"file {file_digest(path)}"
    if remember and before != _remembered:
        _keep(cache)
    return text


def _is_path(text: str) -> bool:
    return text.startswith(("/", "./", "../", "~")) or text in (".", "..")


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        yield from (Path(place, name) for name in sorted(names))


def file_digest(file: Path) -> str:
    """Return the digest of what is in a file; it is read only where that may have changed."""
    key = os.path.realpath(file)
    try:
        status = os.stat(key)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInput(f"{file} is no plain file, which may have no end; expected files and folders")
        seen: list[object] = [status.st_size, status.st_mtime_ns, status.st_ino]
        known = _remembered.get(key)
        if known is not None and known[:3] == seen:
            return str(known[3])
        with open(key, "rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()[:32]
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error}") from error
    if time.time() - status.st_mtime > _SETTLED_SECONDS:
        _remembered[key] = [*seen, digest]
    return digest


def _recall(cache: Path) -> None:
    with suppress(OSError, ValueError):
        found = json.loads(cache.read_text())
        for file, known in found.items() if isinstance(found, dict) else ():
            if isinstance(known, list) and len(known) == 4:
                _remembered.setdefault(file, known)


def _keep(cache: Path) -> None:
    """Write the cache as a whole, or not at all: it only saves time."""
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        with replacing(cache) as written:
            written.write_text(json.dumps(_remembered))
