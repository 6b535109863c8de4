"""Who may see a page: a URL that works once becomes a cookie that neither scripts nor other sites can use.

What changes anything needs a token besides, which the page asks for and other sites cannot read.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hippotune.durable import make_once
from hippotune.errors import StoreError

COOKIE = "hippo_page"
TOKEN_HEADER = "x-hippo-token"
_MOST_CODES = 1000
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person who may see a page: the name and the role."""

    name: str
    role: str


class Logins:
    """Codes that were given out, in memory, and sessions that came of them: cookies that are signed."""

    def __init__(self, find_key: Callable[[], bytes]) -> None:
        self._find_key = find_key
        self._codes: OrderedDict[str, Visitor] = OrderedDict()

    @cached_property
    def _key(self) -> bytes:
        return self._find_key()

    def code(self, visitor: Visitor) -> str:
        """Return a code that lets a person in, once."""
        code = secrets.token_urlsafe(24)
        self._codes[code] = visitor
        while len(self._codes) > _MOST_CODES:
            self._codes.popitem(last=False)
        return code

    def redeem(self, code: str) -> str | None:
        """Return a session for a code, which is used up by that; None where it is none, or was used."""
        visitor = self._codes.pop(code, None)
        if visitor is None:
            return None
        said = json.dumps([visitor.name, visitor.role, secrets.token_hex(16)])
        text = base64.urlsafe_b64encode(said.encode()).decode()
        return f"{text}.{self._signed('session', text)}"

    def visitor(self, cookies: Mapping[str, str]) -> Visitor | None:
        """Return who has sent these cookies, if they are a session's."""
        text, _, signature = cookies.get(COOKIE, "").rpartition(".")
        if not _is_same(self._signed("session", text), signature):
            return None
        name, role, _ = json.loads(base64.urlsafe_b64decode(text))
        return Visitor(name, role)

    def token(self, cookies: Mapping[str, str]) -> str:
        """Return the token of a session, against requests that other sites have a browser make."""
        return self._signed("token", cookies.get(COOKIE, ""))

    def is_own(self, cookies: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        """Whether a request was made by the page itself."""
        return _is_same(self.token(cookies), headers.get(TOKEN_HEADER, ""))

    def _signed(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose} {text}".encode(), hashlib.sha256).hexdigest()


def _is_same(signed: str, given: str) -> bool:
    return hmac.compare_digest(signed.encode(), given.encode())


def kept_key(home: Path) -> bytes:
    """Return the key that signs sessions, which outlive the server; it is made where there is none."""
    path, new = home / "page.key", secrets.token_bytes(_KEY_BYTES)
    try:
        if not path.exists():
            make_once(path, new)
    except OSError:
        if not path.exists():  # nothing can be written there: the key is good as long as this process runs
            return new
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise StoreError(f"{path} has {len(key)} bytes; expected {_KEY_BYTES}: remove it, and log in again")
    return key
