"""The store's secret key, and the keyed check of every checkpoint that the store knows.

A checkpoint may be a pickle, so one that a stranger has put there must not be read. The database row that
names a checkpoint therefore carries a check value that only the owner of the key can make: it covers the
plan, the position, the name, the size and the digest. A row that was planted, altered or copied from
elsewhere fails.

The key is a file of 32 random bytes beside the store, for its owner only. It stays in the process that drives
a study: it is never sent to workers, and a `Secret` can be neither printed nor pickled.
"""

from __future__ import annotations

import errno
import hmac
import json
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from hippotune import portable
from hippotune.durable import make_once
from hippotune.errors import StoreError
from hippotune.plan.facts import Checkpoint, Position

FILE_NAME = "key"
_BYTES = 32
_CAREFULLY = sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_PURPOSE = "hippo checkpoint, 1"  # a check value of another meaning, or of another form, is another one

_NEW = "then run hippo doctor --repair, which gives up the checkpoints that were kept with it"


class LostKey(StoreError):
    """The checkpoints of a plan were kept with a key that is not there."""

    def __init__(self, plan: str, count: int, home: Path, missing: bool) -> None:
        what = "is missing" if missing else "is another one now"
        super().__init__(
            f"the key {home / FILE_NAME}, with which {count} checkpoints of the plan {plan} were kept, {what}"
            ": it cannot be checked that they are the plan's own. Nothing was removed. Put the right key "
            "back: it belongs to the home in which the plan was trained. Or give these checkpoints up, to be "
            f"trained again where they are needed: hippo doctor --repair --home {home}"
        )


class KeyOfAnother(StoreError):
    """The key belongs to another account, and this one may not use it."""


class Secret:
    """An opened key. `path` is the file that it is in."""

    __slots__ = ("_key", "path")

    def __init__(self, key: bytes, path: Path) -> None:
        self._key = key
        self.path = path

    @classmethod
    def of(cls, home: Path) -> Secret:
        """Return the key of a home, made where there is none. `StoreError` where it cannot be used."""
        secret = cls.existing(home)
        if secret is None:
            _make(home / FILE_NAME)
            secret = cls.existing(home)
        if secret is None:
            raise StoreError(f"the key file {home / FILE_NAME} was removed while it was opened; run again")
        with suppress(OSError):
            for left_over in home.glob(f"{FILE_NAME}.*.partial"):  # by a process that was killed
                left_over.unlink()
        return secret

    @classmethod
    def existing(cls, home: Path) -> Secret | None:
        """Return the key of a home; None where there is none. `StoreError` where it cannot be used."""
        path = home / FILE_NAME
        key = _read(path)
        return None if key is None else cls(key, path)

    @classmethod
    def found(cls, home: Path) -> Secret | None:
        """Return the key of a home for looking only; None where there is none that this process can use."""
        with suppress(StoreError):
            return cls.existing(home)
        return None

    @property
    def fingerprint(self) -> str:
        """What the key is known by, and cannot be made from: for the store to notice that it is another."""
        return hmac.digest(self._key, b"hippo key, 1", "sha256").hex()

    def check_of(self, plan: str, position: Position, checkpoint: Checkpoint) -> str:
        """Return the check value of a checkpoint of the plan with this digest."""
        fields = [_PURPOSE, plan, *position, checkpoint.name, checkpoint.bytes, checkpoint.checksum]
        return hmac.digest(self._key, json.dumps(fields).encode(), "sha256").hex()

    def accepts(self, check: object, plan: str, position: Position, checkpoint: Checkpoint) -> bool:
        """Return whether a check value, as a database gave it, is the one of this checkpoint."""
        try:
            expected = self.check_of(plan, position, checkpoint)
        except TypeError:  # SQLite holds anything in any column; what is not plain was not written by us
            return False
        return isinstance(check, str) and hmac.compare_digest(
            check.encode(errors="replace"), expected.encode()
        )

    def __repr__(self) -> str:
        return f"Secret({str(self.path)!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("the store's key stays in the process that drives the study: it cannot be pickled")


def _read(path: Path) -> bytes | None:
    """Return the key in a file; None where there is no such file."""
    try:
        # Not through a link, which could lead to a file with known content; nor waiting for a pipe.
        descriptor = os.open(path, os.O_RDONLY | _CAREFULLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise (KeyOfAnother if isinstance(error, PermissionError) else StoreError)(
            f"the key file {path} cannot be read: {why}; expected a file that belongs to this account"
        ) from error
    try:
        status = os.fstat(descriptor)
        content = os.read(descriptor, _BYTES + 1) if stat.S_ISREG(status.st_mode) else b""
    finally:
        os.close(descriptor)
    if len(content) != _BYTES:
        raise StoreError(
            f"{path} is no key file: expected a file of {_BYTES} bytes. Put the right one back, "
            f"or remove it: {_NEW}"
        )
    if portable.user() is None:  # Windows: who may read a file is up to its folder
        return content
    if status.st_mode & 0o077:
        raise StoreError(
            f"the key file {path} has mode {stat.S_IMODE(status.st_mode):04o}: others can read or change it; "
            f"expected 0600. Run chmod 600 {path} if no one else has read it. Else remove it: {_NEW}. "
            "Where the file system keeps no modes, choose another home"
        )
    if status.st_uid not in (portable.user(), 0):
        raise KeyOfAnother(
            f"the key file {path} belongs to user {status.st_uid}, and this process runs as user "
            f"{portable.user()}; run as that user, or choose another home"
        )
    return content


def _make(path: Path) -> None:
    """Put a new key there, whole from the first moment on; the key of a process that is quicker stays."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        make_once(path, secrets.token_bytes(_BYTES))
    except OSError as error:
        raise StoreError(
            f"the key file {path} cannot be made: {error.strerror}; check that its folder is writable "
            "and has room, or choose another home"
        ) from error
