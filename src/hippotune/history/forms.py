"""The forms of sequences: what those have in common that differ in numbers and names only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hippotune.sequences.base import Sequence
from hippotune.sequences.constant import Constant
from hippotune.sequences.values import Value


class Form(NamedTuple):
    """What sequences have in common that differ in numbers and names only, and how it is called."""

    label: str
    structure: tuple[tuple[str, str], ...]


def form_of(sequence: Sequence) -> Form:
    """Return the form of a sequence."""
    structure: list[tuple[str, str]] = []
    label = _describe(sequence, "", structure) or type(sequence).__name__
    return Form(label, tuple(structure))


def _describe(argument: Any, path: str, structure: list[tuple[str, str]]) -> str:
    """Note what an argument is made of; return the families in it."""
    kind = type(argument).__name__
    if _is_leaf(argument):
        structure.append((path, "value"))
        return ""
    inner = [_describe(part, f"{path}.{name}", structure) for name, part in _parts(argument)]
    structure.append((path, kind if inner else repr(argument)))
    families = ", ".join(filter(None, inner))
    if not isinstance(argument, Sequence):
        return families
    return f"{kind}({families})" if families else kind


def leaves_of(argument: Any, path: str = "") -> Iterator[tuple[str, Value]]:
    """Yield the plain values that a sequence is made from, by the names of the arguments that lead there."""
    for name, part in _parts(argument):
        inner = f"{path}.{name}" if path else name
        if _is_leaf(part):
            yield inner, part.value(0) if isinstance(part, Constant) else part
        else:
            yield from leaves_of(part, inner)


def _is_leaf(argument: Any) -> bool:
    return isinstance(argument, (int, float, str, Constant))


def _parts(argument: Any) -> list[tuple[str, Any]]:
    if isinstance(argument, Sequence):
        return list(zip(type(argument).__signature__.parameters, argument.arguments, strict=True))
    return [(str(place), item) for place, item in enumerate(argument)] if isinstance(argument, tuple) else []
