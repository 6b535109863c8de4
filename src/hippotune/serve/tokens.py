"""Who may do what: users by their tokens, each with a role.

A token file has lines ``NAME ROLE TOKEN``; roles are read, submit and admin, each allowing what the ones
before it do. Without a file, everyone who reaches the server may do everything: on loopback alone.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hippotune.errors import InvalidInput

Role = Literal["none", "read", "submit", "admin"]
ROLES: tuple[Role, ...] = ("none", "read", "submit", "admin")


@dataclass(frozen=True, slots=True)
class User:
    """Someone who makes requests. Without tokens there is one user, who has no name."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether this user may do what a role allows."""
        return ROLES.index(self.role) >= ROLES.index(role)


class Tokens:
    """Knows users by their tokens, of which it keeps digests alone."""

    def __init__(self, file: Path | None = None) -> None:
        self.is_open = file is None
        self._users: dict[bytes, User] = {}
        if file is not None:
            self._read(file)

    def _read(self, file: Path) -> None:
        try:
            mode, text = file.stat().st_mode, file.read_text()
        except OSError as error:
            raise InvalidInput(f"the token file {file} cannot be read: {error.strerror}") from None
        if mode & 0o077:
            raise InvalidInput(f"the token file {file} can be read by others: chmod 600 {file}")
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            words = line.split()
            if len(words) != 3 or words[1] not in ROLES[1:] or len(words[2]) < 16:
                raise InvalidInput(
                    f"{file}, line {number}: expected NAME ROLE TOKEN, with a role of read, submit or admin "
                    "and a token of 16 characters at least"
                )
            self._users[_digest(words[2])] = User(words[0], ROLES[ROLES.index(words[1])])
        if not self._users:
            raise InvalidInput(f"the token file {file} has no users; expected lines of NAME ROLE TOKEN")

    def issue(self, user: str) -> str:
        """Make a token for a process that works for a user, until it is revoked."""
        token = secrets.token_urlsafe(32)
        self._users[_digest(token)] = User(user, "submit")
        return token

    def revoke(self, token: str) -> None:
        """Know a token no more."""
        self._users.pop(_digest(token), None)

    def user(self, authorization: str | None) -> User | None:
        """Return whose the header ``Authorization`` is; None where it names none that is known."""
        if authorization is None or not authorization.startswith("Bearer "):
            return User("", "admin") if self.is_open and authorization is None else None
        # How long it takes to look a digest up says nothing of tokens.
        return self._users.get(_digest(authorization.removeprefix("Bearer ").strip()))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
