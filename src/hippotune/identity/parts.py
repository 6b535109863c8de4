"""The parts of a plan's identity, by name, and what differs between two plans.

A part is kept as a short text: a value that is short is written out, so that a person can read it; of source
code and of long values there is a digest. Values whose names look like those of secrets are digests too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from hippotune.identity.surroundings import SECRET

_LONGEST = 60
_SOURCE, _COMPILED, _CONTENT = "source ", "compiled ", "content "
_LINK = " (is)"
_EFFECT = ": "
_DIGEST = re.compile(r"(source|compiled|content) [0-9a-f]{12}")


class Record:
    """What was found, by kind and name. Nothing is ever overwritten: a second text of a name gets a number.

    So a value never hides a definition that has its name, nor one module's value that of another.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], list[str]] = {}
        self._parts: dict[tuple[str, str], list[str]] = {}

    def add(self, kind: str, name: str, text: str, part: str | None = None) -> None:
        """Add a text; `part` is what a person may read of it, if anything."""
        texts = self._texts.setdefault((kind, name), [])
        if text not in texts:
            texts.append(text)
            if part is not None:
                self._parts.setdefault((kind, name), []).append(part)

    @property
    def digest(self) -> str:
        """Stands for all texts."""
        return digest(
            "\0".join(f"{kind} {name}={texts}" for (kind, name), texts in sorted(self._texts.items()))
        )

    @property
    def parts(self) -> dict[str, str]:
        """Everything that a person may read, by name; of two kinds with one name, both."""
        named: dict[str, str] = {}
        for (kind, name), parts in sorted(self._parts.items()):
            for at, part in enumerate(parts):
                shown = name if name not in named else f"{name} ({kind})"
                named[shown if at == 0 else f"{shown}~{at + 1}"] = part
        return dict(sorted(named.items()))


def digest(text: str | bytes) -> str:
    """Return 32 hexadecimal digits."""
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return hashlib.sha256(content).hexdigest()[:32]


def effect_name(module: str, statement: str) -> str:
    """Return the name of a part that stands for a statement at the top of a module."""
    said = " ".join(statement.split())[:_LONGEST]
    return f"{module or 'top level'}{_EFFECT}{said}"


def is_effect(name: str) -> bool:
    """Whether a part stands for a statement at the top of a module."""
    return _EFFECT in name


def link(name: str) -> str:
    """Return the part that says what a name leads to."""
    return f"{name}{_LINK}"


def linked_to(name: str, parts: Mapping[str, str]) -> str | None:
    """Return a part. A name of which no link is noted leads to the definition that has it."""
    if name not in parts and name.endswith(_LINK) and (plain := name.removesuffix(_LINK)) in parts:
        return plain
    return parts.get(name)


def of_source(text: str, compiled: bool = False) -> str:
    """Return a part that stands for source code, or for compiled code where there is no source."""
    return (_COMPILED if compiled else _SOURCE) + digest(text)[:12]


def is_compiled(part: str) -> bool:
    """Whether a part stands for compiled code."""
    return part.startswith(_COMPILED)


def of_value(name: str, text: str) -> str:
    """Return a part that stands for a value."""
    shown = len(text) <= _LONGEST and text.isprintable() and not SECRET.fullmatch(name)
    return text if shown and not _DIGEST.fullmatch(text) else _CONTENT + digest(text)[:12]


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what changed from one plan to another, each in a few words, for a person to read."""
    said = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if old is None or new is None:
            said.append(f"{name}: {'new' if old is None else 'gone'}")
        elif _DIGEST.fullmatch(old) or _DIGEST.fullmatch(new):
            both = all(part.startswith((_SOURCE, _COMPILED)) for part in (old, new))
            said.append(f"{name}: {'source changed' if both else 'changed'}")
        else:
            said.append(f"{name}: {old} -> {new}")
    return said


def shown(changes: list[str], most: int = 5) -> str:
    """Return changes as one line."""
    more = f"; and {len(changes) - most:,} more" if len(changes) > most else ""
    return "; ".join(changes[:most]) + more
