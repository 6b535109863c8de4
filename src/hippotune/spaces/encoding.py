"""Spaces as JSON: notation by the names of its kinds, `where` by the name under which it can be imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial, reduce
from typing import Any

from hippotune.errors import InvalidInput
from hippotune.sequences.base import Distribution, Sequence
from hippotune.sequences.encoding import from_json, register_distribution
from hippotune.sequences.family import Family
from hippotune.spaces.distributions import Choice, Int, LogUniform, Option, Uniform


def encode_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of a dict of hyper-parameters."""
    return {name: _encode(notation) for name, notation in parameters.items()}


def decode_parameters(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Make a dict of hyper-parameters from its JSON."""
    return {name: _decode(notation) for name, notation in obj.items()}


def _encode(notation: Any) -> Any:
    match notation:
        case Option():
            return {"option": _encode(notation.value), "parameters": encode_parameters(notation.parameters)}
        case Choice():
            return {"distribution": "Choice", **_encode_choice(notation)}
        case Distribution():
            return {"distribution": type(notation).__name__, **asdict(notation)}  # type: ignore[call-overload]
        case Sequence() | Family():
            return notation.to_json()
        case _:
            return notation


def _decode(obj: Any) -> Any:
    if isinstance(obj, Mapping) and "option" in obj:
        return Option(_decode(obj["option"]), decode_parameters(obj["parameters"]))
    return from_json(obj) if isinstance(obj, Mapping) else obj


def _made(kind: type[Distribution], obj: Mapping[str, Any]) -> Distribution:
    return kind(**obj)


def _encode_choice(choice: Choice) -> dict[str, Any]:
    return {"options": [_encode(option) for option in choice.options]}


def _decode_choice(obj: Mapping[str, Any]) -> Choice:
    return Choice(*map(_decode, obj["options"]))


for _kind in (Uniform, LogUniform, Int):
    register_distribution(_kind, asdict, partial(_made, _kind))
register_distribution(Choice, _encode_choice, _decode_choice)


def encode_where(where: Callable[..., object] | None) -> str | None:
    """Return the name under which a function can be imported, as module:name."""
    if where is None:
        return None
    name = f"{getattr(where, '__module__', '')}:{getattr(where, '__qualname__', '')}"
    if name.startswith("__main__:") or _import(name) is not where:
        raise InvalidInput(
            f"where is {where!r}, which cannot be imported as {name}; expected a function of a module"
        )
    return name


def decode_where(name: str | None) -> Callable[..., object] | None:
    """Import a function by its name."""
    if name is None:
        return None
    where: Callable[..., object] | None = _import(name)
    if not callable(where):
        raise InvalidInput(f"where is {name!r} in JSON, and there is no such function to import")
    return where


def _import(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        return reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError):
        return None
