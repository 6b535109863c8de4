"""Homes: folders, or URLs of object stores.

The home of a study is a folder. Where it is given as a URL, checkpoints are objects below that URL, and all
else (the SQLite database, unless `store=` names another one; the key; locks, logs, exports and a cache of
checkpoints) is in a folder of this machine that is named after the URL, in the user's data folder
(`XDG_DATA_HOME`). The folder says in a file which URL it belongs to, so that it is enough to know the
folder.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hippotune.durable import replacing
from hippotune.errors import InvalidInput
from hippotune.store.files import CheckpointFiles, FileHome, explained
from hippotune.store.storage import CheckpointStorage, StorageHome

_FILE_NAME = "storage-url"
_SCHEMES = ("s3", "gs", "az", "memory")
# Also without slashes, where it can hardly be a folder's name.
_URL = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]+:/+|(s3|gs|gcs|az|azure|abfss?|file|memory|https?):", re.IGNORECASE
)
_FOLDER = "checkpoints"
_EXPECTED = "expected a folder, or a URL such as s3://bucket/study, gs://bucket/study or az://container/study"


def parse_home(given: str | Path) -> tuple[Path, str | None]:
    """Return the folder of a home on this machine, and the URL of its checkpoints, if they are elsewhere."""
    if not isinstance(given, str | os.PathLike):
        raise InvalidInput(f"home is {given!r}; {_EXPECTED}")
    text = str(given)
    if not _URL.match(text):
        if os.path.isfile(text):
            raise InvalidInput(f"home is {text!r}, which is a file; expected a folder, new or old")
        return Path(given), None
    if isinstance(given, Path):
        raise InvalidInput(f"home is {given!r}, and a Path cannot hold a URL: give it as text")
    url = urlsplit(text)
    if url.scheme == "file" and url.netloc in ("", "localhost") and url.path.startswith("/"):
        return Path(unquote(url.path)), None
    if url.scheme not in _SCHEMES or not (url.netloc or url.scheme == "memory") or url.query or url.fragment:
        raise InvalidInput(f"home is {text!r}; {_EXPECTED}")
    whole = f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"
    return _data_folder() / _folder_name(whole), whole


def _data_folder() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "hippotune"


def _folder_name(url: str) -> str:
    """Return a name that a person recognizes, and that no other URL has."""
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", url).strip("-")[:80]
    return f"{readable}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


def write_url(home: Path, url: str) -> None:
    """Have a folder say which URL it belongs to."""
    if url_of(home) != url:
        with explained(home):
            home.mkdir(parents=True, exist_ok=True)
            with replacing(home / _FILE_NAME) as temporary:
                temporary.write_text(url)


def url_of(home: Path) -> str | None:
    """Return the URL that a folder belongs to; None where its checkpoints are in it."""
    with explained(home), suppress(FileNotFoundError):
        return (home / _FILE_NAME).read_text()
    return None


def checkpoints_url(home: Path, digest: str) -> str | None:
    """Return where the checkpoints of the plan with a digest are, where that is an object store."""
    url = url_of(home)
    return None if url is None else f"{url}/{_FOLDER}/{digest}"


def checkpoints_of(home: Path, digest: str) -> CheckpointStorage:
    """Return the checkpoints of the plan with a digest."""
    return open_checkpoints(home / _FOLDER / digest, checkpoints_url(home, digest))


def open_checkpoints(folder: Path, url: str | None) -> CheckpointStorage:
    """Return checkpoints that are files in a folder, or, with a URL, objects below that."""
    if url is None:
        return CheckpointFiles(folder)
    from hippotune.store.objects import CheckpointObjects

    return CheckpointObjects(url, folder)


def storage_of(home: Path) -> StorageHome:
    """Return all plans' checkpoints."""
    url = url_of(home)
    if url is None:
        return FileHome(home / _FOLDER)
    from hippotune.store.objects import ObjectHome

    return ObjectHome(f"{url}/{_FOLDER}", home / _FOLDER)
