"""A trainer's settings as JSON, in which all that a trainer can tell apart is different."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from hippotune.errors import InvalidInput

# The only key of a dict that stands for something else than a dict.
_TUPLE, _PAIRS, _FLOAT, _TYPE = "()", "{}", ".", "type"
_MARKS = (_TUPLE, _PAIRS, _FLOAT, _TYPE)
_PLAIN = (dict, list, tuple, str, int, float, bool, type(None))


def canonical(settings: Mapping[str, Any]) -> str:
    """Return settings as text that is the same for settings that no trainer can tell apart."""
    for name, value in settings.items():
        if not isinstance(name, str):
            raise InvalidInput(f"settings has the key {name!r}; expected names, as strings")
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"settings[{name!r}] is {value!r}, which cannot be written as JSON ({error}); "
                "expected numbers, strings, booleans, None, and lists or dicts of them"
            ) from None
    ordered = {name: encoded(settings[name]) for name in sorted(settings)}
    return json.dumps(ordered, separators=(",", ":"))


def encoded(value: Any) -> Any:
    """Write what JSON cannot by itself: tuples, keys that are no names, types of numbers, inf and nan."""
    match value:
        case tuple():
            written: Any = {_TUPLE: [encoded(item) for item in value]}
        case list():
            written = [encoded(item) for item in value]
        case dict() if all(isinstance(key, str) and key not in _MARKS for key in value):
            written = {key: encoded(item) for key, item in value.items()}
        case dict():
            written = {_PAIRS: [[encoded(key), encoded(item)] for key, item in value.items()]}
        case float() if not math.isfinite(value):
            written = {_FLOAT: repr(float(value))}
        case _:
            written = value
    # A number of NumPy is a number, too, and computes with arrays in another way.
    if type(value) in _PLAIN:
        return written
    return {_TYPE: [type(value).__qualname__, json.loads(json.dumps(written))]}


def decoded(written: Mapping[str, Any]) -> dict[str, Any]:
    """Read settings whose values `encoded` has written."""
    try:
        return {name: _decoded(value) for name, value in written.items()}
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"settings are not as Hippo writes them: {error}") from None


def _decoded(value: Any) -> Any:
    match value:
        case {"()": list(items), **others} if not others:
            return tuple(_decoded(item) for item in items)
        case {"{}": list(pairs), **others} if not others:
            return {_decoded(key): _decoded(item) for key, item in pairs}
        case {".": str(text), **others} if not others:
            return float(text)
        case {"type": [str(), plain], **others} if not others:
            return _decoded(plain)
        case dict():
            return {key: _decoded(item) for key, item in value.items()}
        case list():
            return [_decoded(item) for item in value]
        case _:
            return value
