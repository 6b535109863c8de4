"""Homes that belong to a server: it holds a lock as long as it runs, and says where it is reached."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from hippotune import portable
from hippotune.durable import replacing
from hippotune.errors import StoreError
from hippotune.store.files import explained
from hippotune.store.lock import FileLock, PlanInUse

_NAME = "server.json"
_TRIES = 20
_PAUSE = 0.05


class ServedHome:
    """Holds a home for a server; `StoreError` where another one has it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        with explained(home):
            home.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(home)
        with explained(home):
            (home / _NAME).unlink(missing_ok=True)  # of a server that was killed

    def write_url(self, url: str) -> None:
        """Say where the server is reached."""
        with explained(self._home), replacing(self._home / _NAME) as temporary:
            temporary.write_text(json.dumps({"url": url, "pid": os.getpid()}))

    def release(self) -> None:
        """Give the home back."""
        (self._home / _NAME).unlink(missing_ok=True)
        self._lock.release()


def _locked(home: Path) -> FileLock:
    """Lock a home. It is tried again: `served_at` in another process holds the lock for a moment too."""
    lock = partial(FileLock, _lock(home), f"the home {home}")
    for _ in range(_TRIES):
        with suppress(PlanInUse):
            return lock()
        time.sleep(_PAUSE)
    return lock()


def served_at(home: Path) -> str | None:
    """Return the URL of the server that has a home; None where none has. It may be starting up yet: ''."""
    try:
        descriptor = os.open(_lock(home), os.O_RDONLY)
    except OSError:
        return None
    try:
        portable.lock(descriptor, shared=True)
        (home / _NAME).unlink(missing_ok=True)  # of a server that was killed: the next one is not there
    except BlockingIOError:
        try:
            return str(json.loads((home / _NAME).read_text())["url"])
        except (OSError, ValueError, KeyError):
            return ""
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def refuse_served(home: Path) -> None:
    """Raise `StoreError` where a home belongs to a server that runs."""
    url = served_at(home)
    if url is not None:
        use = f"at {url}: use it with hippo submit or Study(url={url!r}), or end it with hippo stop"
        which = use if url else "that is starting: try again in a moment"
        raise StoreError(f"the home {home} belongs to a server {which}")


def _lock(home: Path) -> Path:
    return home / "locks" / "server.lock"
