"""Facts, and other values that are made of plain data, as JSON: for the store, clients and pages.

    {"fact": "MetricsRecorded", "order": 7, "position": [0, 30], "metrics": {"loss": 0.25}, "time": 1.7e9}

A fact is an object with the name of its kind and its fields by name, all of them; positions are arrays,
configs are objects of sequences as `sequences.encoding` writes them, bytes are base64, fractions text. It is
plain JSON that any program reads: a float that JSON has no word for is written as ``{"float": "NaN"}``,
``"Infinity"`` or ``"-Infinity"``, and data that looks like that as ``{"float": [data]}``.

What always holds: ``decode_fact(encode_fact(fact)) == fact``. Fields that a later version has added are
passed over, and a field that is missing has its default. A kind that is not known is refused. Text that
UTF-8 cannot say (lone surrogates) is written with question marks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeVar, get_args

import msgspec

from hippotune.errors import InvalidInput
from hippotune.plan.facts import Fact
from hippotune.sequences.config import Config
from hippotune.sequences.constant import Constant
from hippotune.sequences.encoding import from_json

T = TypeVar("T")

_KINDS: dict[str, type] = {kind.__name__: kind for kind in get_args(Fact)}
_ODD = "float"
_MARK = b'{"float":'
_SPOKEN = {math.inf: "Infinity", -math.inf: "-Infinity"}


def encode_fact(fact: Fact) -> bytes:
    """Return a fact as JSON."""
    return _encoded({"fact": type(fact).__name__, **msgspec.to_builtins(fact, enc_hook=_plain)})


def encode_value(value: object) -> bytes:
    """Return a dataclass of plain data as JSON."""
    return _encoded(msgspec.to_builtins(value, enc_hook=_plain))


def decode_value(text: bytes | str, kind: type[T]) -> T:
    """Return what `encode_value` has written."""
    return msgspec.convert(_heard(msgspec.json.decode(text)), kind, dec_hook=_made)


def _encoded(plain: Any) -> bytes:
    try:
        return msgspec.json.encode(_spoken(plain))
    except UnicodeEncodeError:
        return msgspec.json.encode(_spoken(plain, replace=True))


def decode_fact(text: bytes | str) -> Fact:
    """Return the fact that was written; `InvalidInput` where it is none that this version knows."""
    content = text.encode() if isinstance(text, str) else text
    try:
        plain = msgspec.json.decode(content)
        if _MARK in content:
            plain = _heard(plain)
        kind = _KINDS.get(str(plain.get("fact"))) if isinstance(plain, dict) else None
        if kind is None:
            raise InvalidInput(
                f"{content[:100]!r} is no fact that this version of Hippo knows; expected an object whose "
                f"'fact' is one of {', '.join(_KINDS)}: upgrade Hippo if a newer one wrote it"
            )
        fact: Fact = msgspec.convert(plain, kind, dec_hook=_made)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{content[:100]!r} is not a fact as JSON: {error}") from error
    return fact


def _plain(value: Any) -> Any:
    if isinstance(value, Config):
        return {
            name: sequence.arguments[0] if isinstance(sequence, Constant) else sequence.to_json()
            for name, sequence in value.items()
        }
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Fraction):
        return str(value)
    return float(value)  # a scalar of NumPy


def _made(kind: type, value: Any) -> Any:
    if kind is Fraction:
        return Fraction(value)
    assert kind is Config
    return Config({name: from_json(body) for name, body in value.items()})


def _spoken(value: Any, replace: bool = False) -> Any:
    """Return plain data without floats that JSON has no word for; with `replace`, without lone surrogates."""
    match value:
        case float():
            return value if math.isfinite(value) else {_ODD: _SPOKEN.get(value, "NaN")}
        case str() if replace:
            return value.encode("utf-8", "replace").decode()
        case {"float": str() | list()} if len(value) == 1:  # which looks like what is written for a float
            return {_ODD: [_spoken(value[_ODD], replace)]}
        case dict():
            return {_spoken(key, replace): _spoken(item, replace) for key, item in value.items()}
        case list() | tuple():
            return [_spoken(item, replace) for item in value]
        case _:
            return value


def _heard(value: Any) -> Any:
    """Undo what `_spoken` did to floats."""
    match value:
        case {"float": str(spoken)} if len(value) == 1:
            return float(spoken)
        case {"float": [item]} if len(value) == 1:
            return {_ODD: _heard(item)}
        case dict():
            return {key: _heard(item) for key, item in value.items()}
        case list():
            return [_heard(item) for item in value]
        case _:
            return value
