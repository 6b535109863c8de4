"""Families: sequences of one form whose arguments are not all chosen yet.

``Exponential(LogUniform(1e-3, 1e-1), 0.95)`` is a family: every assignment of values to its distributions
builds a sequence. Families nest as sequences do: ``Warmup(Int(1, 5), Cosine(LogUniform(1e-3, 1e-1), 100))``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hippotune.errors import InvalidInput
from hippotune.sequences.base import Distribution, Open, Sequence, Whole, call_repr, is_open
from hippotune.sequences.values import Value


class Family(Open):
    """A class of sequences with distributions, or further families, among its arguments.

    Distributions are found by their path: the names of the arguments that lead to them, and positions in
    lists, joined by dots: "steps", "then.value", "milestones.0".
    """

    __slots__ = ("arguments", "kind")

    kind: type[Sequence]
    arguments: tuple[Any, ...]

    def __init__(self, kind: type[Sequence], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        bound = kind.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "arguments", tuple(_frozen(value) for value in bound.arguments.values()))

    def parameters(self) -> tuple[tuple[str, Distribution], ...]:
        """Return what is not chosen yet: (path, distribution) pairs in the order of the arguments."""
        return tuple(_open_paths(self, ""))

    def build(self, assignment: Mapping[str, Any]) -> Sequence:
        """Return the sequence with these values, given by path, in place of the distributions."""
        paths = [path for path, _ in self.parameters()]
        if set(assignment) != set(paths):
            raise InvalidInput(f"values are given for {sorted(assignment)}; {self!r} needs them for {paths}")
        built: Sequence = _assigned(self, "", assignment)
        return built

    def then(self, other: Sequence | Value | Open, at: Whole) -> Family:
        """Return the family of these sequences before step `at`, and `other` from there on."""
        from hippotune.sequences.combined import Then

        family: Family = Then((self, other), (at,))  # type: ignore[assignment]
        return family

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Family):
            return NotImplemented
        return self.kind is other.kind and self.arguments == other.arguments

    def __hash__(self) -> int:
        return hash((self.kind, self.arguments))

    def __reduce__(self) -> tuple[Any, ...]:
        return Family, (self.kind, self.arguments, {})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a family never changes: cannot set {name!r} of {self!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a family never changes: cannot delete {name!r} of {self!r}")

    def __repr__(self) -> str:
        return call_repr(self.kind, self.arguments)


def _frozen(argument: Any) -> Any:
    return tuple(_frozen(item) for item in argument) if isinstance(argument, list) else argument


def _children(argument: Any) -> list[tuple[str, Any]]:
    if isinstance(argument, Family):
        return list(zip(argument.kind.__signature__.parameters, argument.arguments, strict=True))
    if isinstance(argument, tuple):
        return [(str(position), item) for position, item in enumerate(argument)]
    return []


def _open_paths(argument: Any, path: str) -> Iterator[tuple[str, Distribution]]:
    if isinstance(argument, Distribution):
        yield path, argument
    for name, child in _children(argument):
        yield from _open_paths(child, f"{path}.{name}" if path else name)


def _assigned(argument: Any, path: str, assignment: Mapping[str, Any]) -> Any:
    if isinstance(argument, Distribution):
        return assignment[path]
    if not is_open(argument):
        return argument
    children = {
        name: _assigned(child, f"{path}.{name}" if path else name, assignment)
        for name, child in _children(argument)
    }
    return argument.kind(**children) if isinstance(argument, Family) else tuple(children.values())
