"""Checkpoints in an object store: S3, Google Cloud Storage, Azure, through obstore.

A checkpoint is written to a file on this machine, uploaded meanwhile, and kept when the store has confirmed
it: an object appears whole or not at all, its size is looked up, and its list of digests is read back. (S3
also compares the SHA-256 of every part with what was sent.) Large ones are sent in several parts, and what
fails is sent again, by the client library.

Files on this machine are a cache: what is read again need not be downloaded. It has a bound (`HIPPO_CACHE`,
10 GB by default); what was not used for longest goes first. Processes on one machine share it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hippotune import checks
from hippotune.errors import CheckpointError, MissingExtra, StorageUnavailable
from hippotune.plan.facts import Checkpoint
from hippotune.store.digests import VerifiedFile, content_length, file_digest
from hippotune.store.files import MARK, UNKNOWN, CheckpointFiles
from hippotune.store.growing import UNIT, GrowingFile
from hippotune.store.storage import CheckpointStorage, StorageHome, Write

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

CACHE_VARIABLE = "HIPPO_CACHE"
RETRIES: RetryConfig = {"max_retries": 10, "retry_timeout": timedelta(minutes=3)}
"""How long the client library tries again, after growing pauses."""
_CACHE_BYTES = "10GB"
_PART = 8 << 20
_USUAL_PARTS = 1000  # S3 takes 10,000, and the next one may be larger
_BLOCK = 32 << 20  # of a download
_AT_ONCE = 4
_TRIES = 3
_NAME = re.compile(r"[0-9a-f]{2}/[^/]+")


def split(url: str) -> tuple[str, str]:
    """Return the URL of what a folder is in, and the folder's name."""
    root, _, folder = url.rstrip("/").rpartition("/")
    return root, folder


class CheckpointObjects(CheckpointStorage):
    """The checkpoints below one URL, each an object; `folder` is where files of this machine are."""

    is_remote = True

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url.rstrip("/")
        root, self._folder = split(url)
        self._store = opened(root)
        self._cache = CheckpointFiles(folder)
        self._part = _PART
        self._bound = checks.size(CACHE_VARIABLE, os.environ.get(CACHE_VARIABLE, _CACHE_BYTES))

    @property
    def where(self) -> str:
        """The URL."""
        return self._url

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}"

    # One checkpoint.

    def save(self, name: str, write: Write) -> Checkpoint:
        """Write a file, upload it meanwhile, and see that it arrived."""
        temporary = self._cache.temporary(name)
        growing = GrowingFile(temporary, self._part)
        with ThreadPoolExecutor(1, "upload") as thread:
            upload = thread.submit(self._upload, name, growing)
            try:
                with self._cache.written(temporary, name, write, grown=growing.grow) as checkpoint:
                    growing.grow(checkpoint.bytes)
                    growing.end(is_whole=True)
                    with _asking(self._url, f"save {name}"):
                        upload.result()
                        self._confirm(checkpoint)
                    os.replace(temporary, self._cache.path(name))
            finally:
                growing.end(is_whole=False)
        self._part = max(self._part, checkpoint.bytes // _USUAL_PARTS // UNIT * UNIT)
        self._trim()
        return checkpoint

    def _upload(self, name: str, growing: GrowingFile) -> None:
        import obstore

        parts = iter(growing)
        first = next(parts)
        # What is sent part by part is begun and completed by requests of their own.
        content = chain([first], parts) if len(first) == self._part else first
        obstore.put(self._store, self._key(name), content, chunk_size=self._part)

    def _confirm(self, checkpoint: Checkpoint) -> None:
        """See that an object is what was written, as far as its size and its list of digests say."""
        import obstore

        key, length = self._key(checkpoint.name), checkpoint.bytes
        start = content_length(length)
        found = obstore.get(self._store, key, options={"range": (start, length)})
        size = found.meta["size"]
        if size != length or file_digest(bytes(found.bytes()), start) != checkpoint.checksum:
            raise StorageUnavailable(
                f"{self._url}/{checkpoint.name} is not what was uploaded: it has {size} bytes of {length}, "
                "or another digest; it is not used"
            )

    def read(self, checkpoint: Checkpoint) -> VerifiedFile:
        """Open a file of this machine that is whole; it is downloaded where there is none."""
        for _ in range(_TRIES):  # another process may trim the cache at any moment
            with suppress(CheckpointError):
                with self._cache.read(checkpoint) as cached:
                    cached.check()
                os.utime(self._cache.path(checkpoint.name))
                return self._cache.read(checkpoint)
            self._download(checkpoint)
        return self._cache.read(checkpoint)

    def verify(self, checkpoint: Checkpoint) -> Path:
        """Download an object, and read all of it."""
        self._download(checkpoint)
        return self._cache.verify(checkpoint)

    def _download(self, checkpoint: Checkpoint) -> None:
        """Put an object into the cache, in place of what is there."""
        import obstore

        key, path = self._key(checkpoint.name), self._cache.path(checkpoint.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(self._cache.temporary(checkpoint.name))
        try:
            with _asking(self._url, f"read {checkpoint.name}"), temporary.open("xb") as file:
                size = obstore.head(self._store, key)["size"]
                fetch = partial(_fetch, self._store, key, size, file.fileno())
                with ThreadPoolExecutor(_AT_ONCE) as threads:
                    list(threads.map(fetch, range(0, size, _BLOCK)))
            os.replace(temporary, path)
        except FileNotFoundError as error:
            raise CheckpointError(f"checkpoint {self._url}/{checkpoint.name} is missing") from error
        finally:
            temporary.unlink(missing_ok=True)
        self._trim(but=path)

    def local_path(self, checkpoint: Checkpoint) -> Path:
        """Return the file in the cache."""
        return self._cache.local_path(checkpoint)

    def delete(self, checkpoint: Checkpoint) -> None:
        """Remove an object."""
        self._cache.delete(checkpoint)
        self._remove([self._key(checkpoint.name)])

    def _remove(self, keys: list[str]) -> None:
        import obstore

        with suppress(FileNotFoundError), _asking(self._url, "remove what is not needed"):
            obstore.delete(self._store, keys)

    def _trim(self, but: Path | None = None) -> None:
        """Keep the cache within its bound."""
        files = []
        for name in self._cache.names():
            with suppress(OSError):  # removed by another process
                status = self._cache.path(name).stat()
                files.append((status.st_mtime, status.st_size, self._cache.path(name)))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total > self._bound and path != but:
                total -= size
                with suppress(OSError):
                    path.unlink()

    # All of them.

    def names(self) -> Iterator[str]:
        """Yield the names of all objects but the mark."""
        return iter(self._sizes())

    def strays(self, known: set[str]) -> dict[str, int]:
        """Return the objects that are not known."""
        return {name: size for name, size in sorted(self._sizes().items()) if name not in known}

    def sweep(self, known: set[str]) -> list[str]:
        """Remove the objects that are not known, and such files of this machine."""
        self._cache.sweep(known)
        if strays := list(self.strays(known)):
            self._remove([self._key(name) for name in strays])
        return strays

    def set_aside(self, known: set[str], mark: str, look_only: bool = False) -> tuple[int, str]:
        """Move objects to another folder."""
        import obstore

        place = f"{self._folder}{UNKNOWN}{mark}"
        strays = list(self.strays(known))
        for name in () if look_only else strays:
            with _asking(self._url, f"set {name} aside"):
                obstore.rename(self._store, self._key(name), f"{place}/{name}")
        return len(strays), f"{split(self._url)[0]}/{place}"

    def _sizes(self) -> dict[str, int]:
        found = _listed(self._url, self._store, self._folder)
        return {name: size for name, size in found.items() if _NAME.fullmatch(name)}

    # The mark.

    def read_mark(self) -> str | None:
        """Read the mark."""
        import obstore

        with suppress(FileNotFoundError), _asking(self._url, f"read {MARK}"):
            return bytes(obstore.get(self._store, self._key(MARK)).bytes()).decode()
        return None

    def write_mark(self, text: str) -> None:
        """Write the mark."""
        import obstore

        try:
            with _asking(self._url, f"write {MARK}"):
                obstore.put(self._store, self._key(MARK), text.encode())
        except FileNotFoundError as error:
            raise _no_bucket(self._url) from error


class ObjectHome(StorageHome):
    """Folders below one URL; `directory` is where files of this machine are."""

    def __init__(self, url: str, directory: Path) -> None:
        self._url = url.rstrip("/")
        self._directory = directory
        self._store = opened(self._url)

    def folders(self) -> list[str]:
        """Return the names of the folders."""
        return sorted(
            {name.partition("/")[0] for name in _listed(self._url, self._store, None) if "/" in name}
        )

    def of(self, folder: str) -> CheckpointObjects:
        """Return a folder."""
        return CheckpointObjects(f"{self._url}/{folder}", self._directory / folder)

    def size(self, folder: str) -> int:
        """Return how many bytes a folder takes."""
        return sum(_listed(self._url, self._store, folder).values())

    def retire(self, folder: str) -> str:
        """Remove all objects of a folder, its mark last: killed on the way, it is known to be left over."""
        import obstore

        keys = [f"{folder}/{name}" for name in _listed(self._url, self._store, folder) if name != MARK]
        with _asking(self._url, f"remove {folder}"):
            if keys:
                obstore.delete(self._store, keys)
            obstore.delete(self._store, f"{folder}/{MARK}")
        return folder

    def remove(self, folder: str) -> None:
        """Remove what this machine has of a folder."""
        import shutil

        shutil.rmtree(self._directory / folder, ignore_errors=True)


def opened(url: str) -> ObjectStore:
    """Return a store by its URL. What is in memory lives as long as the process."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError as error:
        raise MissingExtra(
            f"checkpoints at {url} need obstore: pip install 'hippotune[storage]', on all machines"
        ) from error
    if url.startswith("memory://"):
        return _in_memory(url)
    try:
        return from_url(url, retry_config=RETRIES)
    except (BaseError, ValueError) as error:
        raise StorageUnavailable(f"{url} cannot be used as a home: {_first_line(error)}") from error


@cache
def _in_memory(url: str) -> ObjectStore:
    from obstore.store import MemoryStore

    return MemoryStore()


@contextmanager
def _asking(url: str, what: str) -> Iterator[None]:
    """Say what was asked of the store where it cannot be done; that nothing is there is passed on."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError:
        raise
    except (BaseError, PermissionError) as error:
        if "NoSuchBucket" in str(error):
            raise _no_bucket(url) from error
        raise StorageUnavailable(
            f"{url}: could not {what}: {_first_line(error)}. Check that the store can be reached "
            "and that the environment has credentials for reading, writing, listing and deleting there"
        ) from error


def _no_bucket(url: str) -> StorageUnavailable:
    return StorageUnavailable(f"{url}: there is no such bucket; make it first")


def _listed(url: str, store: ObjectStore, folder: str | None) -> dict[str, int]:
    """Return the names of all objects in a folder, below it, with their sizes."""
    import obstore

    skip = 0 if folder is None else len(folder) + 1
    with _asking(url, "look at what is there"):
        pages: Any = obstore.list(store, folder, chunk_size=1000)
        return {meta["path"][skip:]: meta["size"] for page in pages for meta in page}


def _fetch(store: ObjectStore, key: str, size: int, descriptor: int, start: int) -> None:
    """Write one block of an object to its place in a file."""
    import obstore

    block = memoryview(obstore.get_range(store, key, start=start, end=min(start + _BLOCK, size)))
    while block:
        written = os.pwrite(descriptor, block, start)
        block, start = block[written:], start + written


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
