"""A tuner described as data: the tables ``space`` and ``tuner`` of a study in TOML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import hippotune as hippo
from hippotune import tuners
from hippotune.errors import InvalidInput
from hippotune.spaces.written import argument_names, read_notation
from hippotune.tuners.base import Tuner

_TUNERS = {
    name
    for name in tuners.__all__
    if isinstance(found := getattr(tuners, name), type) and issubclass(found, Tuner) and found is not Tuner
}


def described_tuner(content: Mapping[str, Any]) -> Tuner:
    """Make the tuner that the tables ``space`` and ``tuner`` of a study describe."""
    space = {name: read_notation(value) for name, value in content.get("space", {}).items()}
    tuner: Tuner = made("tuner", content.get("tuner"), _TUNERS, space=space)
    return tuner


def made(what: str, given: Any, allowed: set[str], **more: Any) -> Any:
    """Make an object of a table that names its ``kind``, one of those allowed, and its arguments."""
    kind = given.get("kind") if isinstance(given, dict) else None
    if kind not in allowed:
        raise InvalidInput(f"{what}.kind is {kind!r}; expected one of {', '.join(sorted(allowed))}")
    options = {name: value for name, value in given.items() if name != "kind"}
    return called(f"{what} {kind}", getattr(hippo, kind), options, **more)


def called(what: str, function: Any, options: Mapping[str, Any], **more: Any) -> Any:
    """Call a function with options that a person wrote."""
    try:
        return function(**more, **options)
    except TypeError as error:
        raise InvalidInput(
            f"{what} cannot be made of {', '.join(options) or 'nothing'}: {error}; it takes "
            f"{argument_names(function)}"
        ) from error
