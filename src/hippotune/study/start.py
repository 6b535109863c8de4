"""``Study(start=...)``: where the weights come from that every trial starts from."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hippotune.durable import replacing
from hippotune.errors import InvalidInput
from hippotune.identity.data import file_digest
from hippotune.trainers.starting import Start

_SCHEMES = ("http", "https")


def find_start(given: str | Path | None, home: Path) -> Start | None:
    """Return the file that a path or a URL stands for; what a URL leads to is kept below the home."""
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise InvalidInput(f"start is {given!r}; expected the path or the URL of a file of weights")
    text = os.fspath(given)
    parts = urlsplit(text) if "://" in text else None
    if parts is not None and parts.scheme != "file":
        if parts.scheme not in _SCHEMES:
            raise InvalidInput(
                f"start is {text!r}; expected a path, or a URL of file://, http:// or https://"
            )
        path = _downloaded(text, home)
    else:
        path = Path(text if parts is None else unquote(parts.path)).expanduser().absolute()
    if not path.is_file():
        raise InvalidInput(f"start is {text!r}, which does not exist, or is not a file")
    return Start(path, file_digest(path))


def _downloaded(url: str, home: Path) -> Path:
    """Return the copy of a URL's file, fetching it where there is none."""
    folder = home / "starts"
    suffix = Path(urlsplit(url).path).suffix
    target = folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}{suffix}"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with replacing(target) as written:
                urllib.request.urlretrieve(url, written)  # raises where it ends too early
        except (OSError, HTTPException) as error:
            raise InvalidInput(f"start is {url!r}, which cannot be fetched: {error}") from error
    return target.absolute()
