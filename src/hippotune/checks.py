"""Checks of arguments: each returns the argument in the form that is kept, or raises `InvalidInput`.

All messages have one form: what was given, and what was expected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, TypeVar

from hippotune.errors import InvalidInput
from hippotune.sequences.values import Number, plain, unwrapped

T = TypeVar("T", bound=str)


def number(
    name: str,
    value: object,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
    infinite: bool = False,
    what: str = "",
) -> Number:
    """Return a number within bounds; `least` and `most` are included, `above` is not.

    `what` says in a message what it counts, such as seconds. `infinite` allows ``math.inf``.
    """
    found = math.inf if infinite and value == math.inf else _number(name, value)
    if found is not None and least <= found <= most and found > above:
        return found
    bounds = [f"at least {least:g}"] * (least > -math.inf) + [f"above {above:g}"] * (above > -math.inf)
    bounds += [f"at most {most:g}"] * (most < math.inf)
    kind = what or ("a number" if infinite else "a finite number")
    raise InvalidInput(f"{name} is {value!r}; expected {kind} {' and '.join(bounds)}".rstrip())


def whole(name: str, value: object, least: int | None = 1) -> int:
    """Return a whole number of at least `least`; any, where that is None."""
    found = _number(name, value)
    low = -math.inf if least is None else least
    if isinstance(found, int) and found >= low and not isinstance(unwrapped(name, value), float):
        return found
    bound = "" if least is None else f" of at least {least}"
    raise InvalidInput(f"{name} is {value!r}; expected a whole number{bound}")


def _number(name: str, value: object) -> Number | None:
    """Return a finite number, or None for anything else; a boolean is no number."""
    try:
        found = plain(name, value)
    except InvalidInput:
        return None
    return None if isinstance(found, (bool, str)) else found


def hang_after(value: float | None) -> float | None:
    """Return how long a worker may be silent, or None for the default."""
    return None if value is None else number("hang_after", value, above=0, infinite=True, what="seconds")


def text(name: str, value: object, example: str) -> str:
    """Return text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{name} is {value!r}; expected text, such as {example!r}")
    return value


def subclass(name: str, value: object, base: type, expected: str) -> None:
    """Check that something is a class below another."""
    if not (isinstance(value, type) and issubclass(value, base)):
        raise InvalidInput(f"{name} is {value!r}; expected {expected}")


def instance(name: str, value: object, kind: type, expected: str) -> None:
    """Check that something is an object of a class."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{name} is {value!r}; expected {expected}")


def one_of(name: str, value: object, allowed: tuple[T, ...]) -> T:
    """Return one of the words allowed."""
    for word in allowed:
        if word == value:
            return word
    raise InvalidInput(f"{name} is {value!r}; expected one of {', '.join(map(repr, allowed))}")


def yes_or_no(name: str, value: object) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is {value!r}; expected True or False")
    return value


def mapping(name: str, value: object, example: str) -> dict[str, Any]:
    """Return a mapping as a dict; an empty one for None."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInput(f"{name} is {value!r}; expected a mapping, such as {example}")
    return dict(value or {})


def several(name: str, values: object) -> tuple[Any, ...]:
    """Return the items of a list."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {values!r}; expected a list")
    return tuple(values)


def pairs(name: str, values: object, expected: str) -> list[tuple[Any, Any]]:
    """Return the items of a list of pairs."""
    listed = several(name, values)
    for at, pair in enumerate(listed):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInput(f"{name}[{at}] is {pair!r}; expected {expected}")
    return [tuple(pair) for pair in listed]


def milestones(name: str, values: object, *, repeats: bool) -> tuple[int, ...]:
    """Return steps in increasing order; with `repeats`, a step may come more than once."""
    steps = tuple(whole(f"{name}[{at}]", step, least=0) for at, step in enumerate(several(name, values)))
    for before, after in pairwise(steps):
        if after < before or (after == before and not repeats):
            raise InvalidInput(f"{name} is {list(steps)}; expected steps in increasing order")
    return steps


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def size(name: str, value: object) -> int:
    """Return a size in bytes, given as a number or as text: ``20_000``, ``"20GB"`` or ``"1.5 GiB"``."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].upper() not in _UNITS or float(match[1]) <= 0:
        raise InvalidInput(f"{name} is {value!r}; expected bytes, or a size such as '20GB' or '512MiB'")
    return int(float(match[1]) * _UNITS[match[2].upper()])
