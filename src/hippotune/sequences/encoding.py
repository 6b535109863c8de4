"""Sequences and families as JSON: the name of the family and its arguments, all of them.

Defaults are written out, so that what is stored keeps its meaning whatever later versions default to.
Constants inside other sequences are written as their plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hippotune.errors import InvalidInput
from hippotune.sequences.base import FAMILIES, Distribution, Sequence
from hippotune.sequences.constant import Constant, as_sequence
from hippotune.sequences.family import Family

_Encode = Callable[[Any], Mapping[str, Any]]
_Decode = Callable[[Mapping[str, Any]], Distribution]
_distributions: Final[dict[str, tuple[_Encode, _Decode]]] = {}

_REMEMBERED: Final = 1 << 15
_sequences: Final[dict[str, Sequence]] = {}


def register_distribution(
    kind: type[Distribution],
    encode: Callable[[Any], Mapping[str, Any]],
    decode: Callable[[Mapping[str, Any]], Distribution],
) -> None:
    """Say how distributions of a class are written as JSON and read back; the class's name is added."""
    _distributions[kind.__name__] = (encode, decode)


def encode(kind: type[Sequence], arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Return the JSON of a sequence or a family: the name of its class, and its arguments by name."""
    named = zip(kind.__signature__.parameters, arguments, strict=True)
    return {"family": kind.__name__, **{name: _encoded(argument) for name, argument in named}}


def _encoded(argument: Any) -> Any:
    if isinstance(argument, Constant):
        return argument.arguments[0]
    if isinstance(argument, (Sequence, Family)):
        return argument.to_json()
    if isinstance(argument, Distribution):
        name = type(argument).__name__
        write, _ = _known("distribution", name, _distributions)
        return {"distribution": name, **write(argument)}
    if isinstance(argument, tuple):
        return [_encoded(item) for item in argument]
    return argument


def from_json(obj: Any) -> Any:
    """Make the sequence, or the family of sequences, that `to_json` wrote. A plain value is a constant.

    Equal JSON gives one and the same sequence, as long as it is remembered: configs that are read from a
    store share their sequences as the configs of a grid do.
    """
    written = repr(obj)
    known = _sequences.get(written)
    if known is not None:
        return known
    made = _decoded(obj) if isinstance(obj, Mapping) else as_sequence(obj)
    if isinstance(made, Sequence):
        if len(_sequences) >= _REMEMBERED:
            _sequences.clear()
        _sequences[written] = made
    return made


def _decoded(obj: Any) -> Any:
    if isinstance(obj, list):
        return [_decoded(item) for item in obj]
    if not isinstance(obj, Mapping):
        return obj
    if "distribution" in obj:
        _, read = _known("distribution", obj["distribution"], _distributions)
        return read({name: value for name, value in obj.items() if name != "distribution"})
    kind: type[Sequence] = _known("family", obj.get("family"), FAMILIES)
    arguments = {name: _decoded(value) for name, value in obj.items() if name != "family"}
    return kind.from_arguments(arguments)


def _known(kind: str, name: Any, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise InvalidInput(
            f"no {kind} {name!r} is known as JSON; there are {', '.join(sorted(known)) or 'none'} "
            "(import the module that defines it first)"
        )
    return known[name]
