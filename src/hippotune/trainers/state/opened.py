"""An object, opened: what it is, for people and for comparing, and what it holds."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

from hippotune.trainers.state import walk

Child = tuple[Any, Any]
"""The way to something that an object holds, a text or a `Key`, and what it is."""

INSIDE = " (inside)"


@dataclass(frozen=True, slots=True)
class Key:
    """An object that is the key of a dict, the `number`-th of it; the way to the key, or to its value."""

    key: Any
    number: int
    is_value: bool


@dataclass
class Opened:
    """An object opened: what it is (`text` for people, `token` for telling it apart), and what it holds.

    `items` are the objects in a set; `order` is the order in which a set of plain values is gone through.
    `unsaved` is what the object holds beside what is saved of it.
    """

    text: str | None
    token: str
    children: list[Child] = field(default_factory=list)
    shape: tuple[int, ...] = ()
    items: list[Any] | None = None
    order: str | None = None
    unsaved: list[Child] = field(default_factory=list)


def items_of(items: Any) -> tuple[list[Child], list[Any]]:
    """Return what a dict holds, and its keys as they are written; `items` are its pairs."""
    children: list[Child] = []
    keys = []
    for number, (key, item) in enumerate(list(items)):
        if type(key) in walk.ATOMS:
            keys.append(key)
            children.append((f"[{walk.short(key)}]", item))
        else:
            keys.append(_Unnamed(type(key).__name__))
            children += [(Key(key, number, False), key), (Key(key, number, True), item)]
    return children, keys


class _Unnamed:
    """Stands for a key that is an object: it is a child by itself."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __repr__(self) -> str:
        return f"<{self._kind}>"


def written(keys: list[Any]) -> str:
    """Return keys as a text that tells them apart."""
    return str([f"{type(key).__name__} {key!r}" for key in keys])


def listing(text: str, items: Any) -> str:
    """Return the first few items after a text."""
    shown = [walk.short(item) for _, item in zip(range(6), items, strict=False)]
    return f"{text} {', '.join(shown)}{', …' if len(items) > 6 else ''}"


def name_of(value: Any) -> str:
    """Return the full name of a class, a function or a module."""
    if isinstance(value, types.ModuleType):
        return str(value.__name__)
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"


def described(value: Any) -> str:
    """Return the kind of an object in words: "a dict"."""
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"
