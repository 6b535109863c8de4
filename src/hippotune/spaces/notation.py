"""How hyper-parameters are written, and what follows from it: one config by asking, or all of them in order.

A hyper-parameter is a plain value or a sequence (always the same), a list, an array or a `Choice` (one of
these), a number's distribution, or a sequence with distributions among its parameters (a family). Options of
a choice may be any of these again, and an `Option` brings hyper-parameters of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from hippotune.errors import InvalidInput
from hippotune.sequences.base import Sequence
from hippotune.sequences.constant import as_sequence
from hippotune.sequences.family import Family
from hippotune.sequences.mixtures import mixture_text
from hippotune.spaces.distributions import Choice, Number, Option
from hippotune.spaces.sources import Source

Parameters = Mapping[str, Any]
Values = dict[str, Any]
"""The hyper-parameters of one config, as the user wrote them: plain values stay plain."""


def checked(parameters: Parameters) -> dict[str, Any]:
    """Return the parameters with every list as a `Choice`; no name may come twice in one config."""
    if not isinstance(parameters, Mapping):
        raise InvalidInput(f"a space is {parameters!r}; expected a dict of hyper-parameters")
    if not parameters:
        raise InvalidInput("a space is empty; expected a dict with at least one hyper-parameter")
    known = {name: _checked(name, notation) for name, notation in parameters.items()}
    _names(known)
    return known


def _checked(name: str, notation: Any) -> Any:
    if not isinstance(name, str) or not name or "/" in name:
        raise InvalidInput(f"hyper-parameter name is {name!r}; expected a non-empty string without '/'")
    if isinstance(notation, np.ndarray) and notation.ndim == 1:
        notation = notation.tolist()
    if isinstance(notation, list | range):
        if not notation:
            raise InvalidInput(f"hyper-parameter {name!r} is an empty list; expected at least one value")
        notation = Choice(*notation)
    if isinstance(notation, Choice):
        return Choice(*(_checked_option(name, option) for option in notation.options))
    if isinstance(notation, Family):
        for _, distribution in notation.parameters():
            _refuse_options(name, distribution)
        return notation
    if isinstance(notation, Number | Sequence):
        return notation
    if isinstance(notation, Mapping):
        return mixture_text(f"hyper-parameter {name!r}", notation)
    try:
        as_sequence(notation)
    except InvalidInput:
        raise InvalidInput(
            f"hyper-parameter {name!r} is {notation!r}; "
            "expected a value, a sequence, a list of them ([0.1, 0.2]) or a distribution"
        ) from None
    return notation


def _checked_option(name: str, option: Any) -> Any:
    if isinstance(option, Option):
        return Option(
            _checked(name, option.value), {sub: _checked(sub, of) for sub, of in option.parameters.items()}
        )
    return _checked(name, option)


def _refuse_options(name: str, notation: Any) -> None:
    """Refuse hyper-parameters that would come with a parameter of a sequence."""
    if isinstance(notation, Option):
        raise InvalidInput(
            f"hyper-parameter {name!r} has {notation!r} inside a sequence; expected a value there"
        )
    if isinstance(notation, Choice):
        for option in notation.options:
            _refuse_options(name, option)
    if isinstance(notation, Family):
        for _, distribution in notation.parameters():
            _refuse_options(name, distribution)


def _names(parameters: Parameters) -> set[str]:
    """Return all names that configs of these parameters can have."""
    known: set[str] = set()
    for name, notation in parameters.items():
        mine = {name}
        for option in notation.options if isinstance(notation, Choice) else ():
            if isinstance(option, Option) and option.parameters:
                own = _names(option.parameters)
                if name in own:
                    raise InvalidInput(
                        f"hyper-parameter {name!r} has an option with a hyper-parameter of that name"
                    )
                mine |= own
        if twice := known & mine:
            raise InvalidInput(
                f"hyper-parameter {min(twice)!r} is there twice; names must differ within a config"
            )
        known |= mine
    return known


def resolve(parameters: Parameters, source: Source, path: str = "") -> Values:
    """Make the values of one config, asking the source for everything that is open."""
    values: Values = {}
    for name, notation in parameters.items():
        value, own = _resolve(path + name, notation, source)
        values[name] = value
        values.update(own)
    return values


def _resolve(path: str, notation: Any, source: Source) -> tuple[Any, Values]:
    match notation:
        case Choice():
            index = source.choice(path, len(notation.options))
            option = notation.options[index]
            if not isinstance(option, Option):
                return _resolve(f"{path}/{index}", option, source)
            value, own = _resolve(f"{path}/{index}", option.value, source)
            return value, {**own, **resolve(option.parameters, source, f"{path}/{index}/")}
        case Number():
            return source.number(path, notation), {}
        case Family():
            assignment = {
                name: _resolve(f"{path}/{name}", distribution, source)[0]
                for name, distribution in notation.parameters()
            }
            return notation.build(assignment), {}
        case _:
            return notation, {}


class Leaf(NamedTuple):
    """What a source can be asked for: its path, its hyper-parameter, and what it is drawn from."""

    path: str
    owner: str
    distribution: Number | Choice


def leaves(parameters: Parameters, path: str = "") -> Iterator[Leaf]:
    """Yield everything that a source can be asked for, also where it depends on a choice."""
    for name, notation in parameters.items():
        yield from _leaves(path + name, name, notation)


def _leaves(path: str, owner: str, notation: Any) -> Iterator[Leaf]:
    match notation:
        case Choice():
            yield Leaf(path, owner, notation)
            for index, option in enumerate(notation.options):
                if isinstance(option, Option):
                    yield from _leaves(f"{path}/{index}", owner, option.value)
                    yield from leaves(option.parameters, f"{path}/{index}/")
                else:
                    yield from _leaves(f"{path}/{index}", owner, option)
        case Number():
            yield Leaf(path, owner, notation)
        case Family():
            for name, distribution in notation.parameters():
                yield from _leaves(f"{path}/{name}", owner, distribution)


def combinations(parameters: Parameters) -> int:
    """Return how many configs there are, without making them; there is no `Number`."""
    return math.prod(map(possibilities, parameters.values()))


def possibilities(notation: Any) -> int:
    """Return how many alternatives one hyper-parameter, or an option, stands for."""
    match notation:
        case Choice():
            return sum(map(possibilities, notation.options))
        case Option():
            return possibilities(notation.value) * combinations(notation.parameters)
        case Family():
            return math.prod(possibilities(of) for _, of in notation.parameters())
        case _:
            return 1


def alternatives(parameters: Parameters) -> Iterator[Values]:
    """Yield the values of every config, the last hyper-parameter varying fastest; there is no `Number`."""
    sides = [
        [{name: value, **own} for value, own in _alternatives(notation)]
        for name, notation in parameters.items()
    ]
    for combination in product(*sides):
        values: Values = {}
        for side in combination:
            values.update(side)
        yield values


def _alternatives(notation: Any) -> Iterator[tuple[Any, Values]]:
    match notation:
        case Choice():
            for option in notation.options:
                if isinstance(option, Option):
                    for value, own in _alternatives(option.value):
                        for more in alternatives(option.parameters):
                            yield value, {**own, **more}
                else:
                    yield from _alternatives(option)
        case Family():
            names, distributions = zip(*notation.parameters(), strict=True)
            for values in product(*([value for value, _ in _alternatives(of)] for of in distributions)):
                yield notation.build(dict(zip(names, values, strict=True))), {}
        case _:
            yield notation, {}
