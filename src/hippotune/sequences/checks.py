"""Checks of constructor arguments: each returns the argument in the form that is kept, or says what fits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, TypeVar

from hippotune.errors import InvalidInput
from hippotune.sequences.values import Number, plain

T = TypeVar("T", bound=str)


def number(
    name: str, value: object, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf
) -> Number:
    """Return a finite number within bounds; `least` and `most` are included, `above` is not."""
    found = _number(name, value)
    if found is not None and least <= found <= most and found > above:
        return found
    bounds = [f"at least {least}"] * (least > -math.inf) + [f"above {above}"] * (above > -math.inf)
    bounds += [f"at most {most}"] * (most < math.inf)
    raise InvalidInput(f"{name} is {value!r}; expected a finite number {' and '.join(bounds)}".rstrip())


def whole(name: str, value: object, *, least: int) -> int:
    """Return a whole number of at least `least`."""
    found = _number(name, value)
    if isinstance(found, int) and found >= least:
        return found
    raise InvalidInput(f"{name} is {value!r}; expected a whole number of at least {least}")


def _number(name: str, value: object) -> Number | None:
    """Return a finite number, or None for anything else; a boolean is no number."""
    try:
        found = plain(name, value)
    except InvalidInput:
        return None
    return None if isinstance(found, (bool, str)) else found


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


def several(name: str, values: object) -> tuple[Any, ...]:
    """Return the items of a list."""
    if isinstance(values, (str, dict)) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {values!r}; expected a list")
    return tuple(values)


def milestones(name: str, values: object, *, repeats: bool) -> tuple[int, ...]:
    """Return steps in increasing order; with `repeats`, a step may come more than once."""
    steps = tuple(whole(f"{name}[{at}]", step, least=0) for at, step in enumerate(several(name, values)))
    for before, after in pairwise(steps):
        if after < before or (after == before and not repeats):
            raise InvalidInput(f"{name} is {list(steps)}; expected steps in increasing order")
    return steps
