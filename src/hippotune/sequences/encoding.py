"""Sequences as JSON: the name of the family and its arguments, all of them.

Defaults are written out, so that what is stored keeps its meaning whatever later versions default to.
Constants inside other sequences are written as their plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hippotune.errors import InvalidInput
from hippotune.sequences.base import FAMILIES, Sequence
from hippotune.sequences.constant import Constant, as_sequence

_REMEMBERED: Final = 1 << 15
_sequences: Final[dict[str, Sequence]] = {}


def encode(kind: type[Sequence], arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Return the JSON of a sequence: the name of its class, and its arguments by name."""
    named = zip(kind.__signature__.parameters, arguments, strict=True)
    return {"family": kind.__name__, **{name: _encoded(argument) for name, argument in named}}


def _encoded(argument: Any) -> Any:
    if isinstance(argument, Constant):
        return argument.arguments[0]
    if isinstance(argument, Sequence):
        return argument.to_json()
    if isinstance(argument, tuple):
        return [_encoded(item) for item in argument]
    return argument


def from_json(obj: Any) -> Sequence:
    """Make the sequence that `to_json` wrote. A plain value is a constant.

    Equal JSON gives one and the same sequence, as long as it is remembered, and holds no function: configs
    that are read from a store share their sequences as the configs of a grid do.
    """
    written = repr(obj)
    known = _sequences.get(written)
    if known is not None:
        return known
    made: Sequence = _decoded(obj) if isinstance(obj, Mapping) else as_sequence(obj)
    if "'Function'" in written:
        return made  # it may be another one the next time, as what it reads may change
    if len(_sequences) >= _REMEMBERED:
        _sequences.clear()
    _sequences[written] = made
    return made


def _decoded(obj: Any) -> Any:
    if isinstance(obj, list):
        return [_decoded(item) for item in obj]
    if not isinstance(obj, Mapping):
        return obj
    name = obj.get("family")
    if name not in FAMILIES:
        raise InvalidInput(
            f"no family {name!r} is known as JSON; there are {', '.join(sorted(FAMILIES))} "
            "(import the module that defines it first)"
        )
    arguments = {name: _decoded(value) for name, value in obj.items() if name != "family"}
    return FAMILIES[name].from_arguments(arguments)
