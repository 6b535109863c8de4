"""Objects that are compared by identity: ``UNSET = Unset()`` in a module, and ``x is UNSET``.

One that holds nothing, or plain values only, and that a module or a class holds too, is saved with its way
from there. After a load it is what stands there, if that is equal; otherwise it is made again.
"""

from __future__ import annotations

import copyreg
import math
import sys
import types
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from hippotune.identity.ownership import is_users
from hippotune.trainers.state.functions import SHIPPED

CONSTANT = "constant"
"""What references to `Constants.values` begin with."""

Way = tuple[tuple[str, Any], ...]
_Place = tuple[Any, Way, object]
"""A module's name or the trainer's class, the way from there, and what is there."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_NAMED = (type, types.FunctionType)
_LONGEST = 5
_MOST_ITEMS = 1_000
_HEAP_TYPE = 1 << 9
_MOST_OBJECTS = 50_000


class Constants:
    """What the user's modules and the trainer's class hold, by id, for as long as no module is added.

    `values` are what stands for NaN and for tuples of plain values, which `reduce` is not asked about.
    """

    def __init__(self, trainer: type) -> None:
        self._trainer = trainer
        self._places: dict[int, _Place] = {}
        self.values: dict[int, tuple[str, Any]] = {}
        self._seen = (0, 0)

    def reduce(self, value: Any) -> tuple[Any, ...] | None:
        """Return how a constant is found again; None for everything else, which is saved by what it holds."""
        attributes = getattr(value, "__dict__", {})
        place = self._places.get(id(value))
        if place is None:
            place = None if attributes else self._place_in_libraries(value)
        if place is None or not _are_plain(attributes):
            return None
        return _constant, (*place[:2], type(value), dict(attributes))

    def update(self) -> None:
        """Look again, where modules were added."""
        if self._seen == (now := (len(sys.modules), len(SHIPPED))):
            return
        places = {number: place for number, place in _places(self._trainer) if _may_be_constant(place[2])}
        values = {
            number: (CONSTANT, (root, way, copy))
            for number, (root, way, value) in places.items()
            if (copy := _copied(value)) is not None
        }
        self.values = values | {id(math.nan): _in_module("math"), id(np.nan): _in_module("numpy")}
        self._places, self._seen = places, now

    def _place_in_libraries(self, value: Any) -> _Place | None:
        if is_users(type(value).__module__, self._trainer.__module__):
            return None
        place = next(_places_in_libraries(value), None)
        if place is not None:
            self._places[id(value)] = place
        return place


@lru_cache(maxsize=4)
def _constants_of(trainer: Hashable) -> Constants:
    assert isinstance(trainer, type)
    return Constants(trainer)


def constants_of(trainer: type) -> Constants:
    """Return the constants around a trainer, which are looked for once."""
    key: Hashable = trainer
    constants = _constants_of(key)
    constants.update()
    return constants


def _places(trainer: type) -> Iterator[tuple[int, _Place]]:
    roots: list[tuple[Any, Any]] = [(trainer, trainer), *SHIPPED.items()]
    roots += [
        (name, vars(module))
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType) and is_users(name, trainer.__module__)
    ]
    waiting: deque[_Place] = deque((root, (), holder) for root, holder in roots)
    seen: set[int] = {id(holder) for _, holder in roots}
    while waiting and len(seen) < _MOST_OBJECTS:
        root, way, holder = waiting.popleft()
        for step, value in _parts_of(holder, trainer.__module__, is_root=not way):
            if id(value) in seen or (type(value) in _PLAIN and value == value):
                continue
            seen.add(id(value))
            place = (root, (*way, step), value)
            yield id(value), place
            if len(place[1]) < _LONGEST:
                waiting.append(place)


def holds_only_attributes(kind: type) -> bool:
    """Whether all that an object of a class holds is in its ``__dict__``."""
    if kind is object:
        return True
    is_small = kind.__basicsize__ <= object.__basicsize__ + 2 * tuple.__itemsize__
    return is_small and bool(kind.__flags__ & _HEAP_TYPE) and not copyreg._slotnames(kind)  # type: ignore[attr-defined]


def _may_be_constant(value: object) -> bool:
    if type(value) in (float, tuple):
        return _copied(value) is not None
    if not holds_only_attributes(type(value)) or issubclass(type(value), _NAMED):
        return False  # the index must not keep arrays and the like alive
    with suppress(AttributeError):
        return _are_plain(object.__getattribute__(value, "__dict__"))
    return True


def _are_plain(attributes: Mapping[str, Any]) -> bool:
    return all(type(each) in _PLAIN for each in attributes.values())


def _copied(value: object) -> Any:
    """Return an equal object, where it is NaN or a tuple of plain values; None for all else."""
    if type(value) is float and math.isnan(value):
        return float("nan")
    if type(value) is tuple and value and _is_plain(value):
        return (*value,)
    return None


def _is_plain(value: object) -> bool:
    return all(map(_is_plain, value)) if type(value) is tuple else type(value) in _PLAIN


def _in_module(name: str) -> tuple[str, Any]:
    return CONSTANT, (name, (("item", "nan"),), float("nan"))


def _parts_of(holder: Any, home: str, is_root: bool) -> list[tuple[tuple[str, Any], Any]]:
    """Return what an object holds, each with the step that leads there."""
    with suppress(Exception):  # what stands for something else may raise anything
        return list(_parts(holder, home, is_root))
    return []


def _parts(holder: Any, home: str, is_root: bool) -> Iterator[tuple[tuple[str, Any], Any]]:
    if type(holder) in (dict, list, tuple):
        if is_root or len(holder) <= _MOST_ITEMS:
            items = holder.items() if type(holder) is dict else enumerate(holder)
            yield from ((("item", key), value) for key, value in list(items) if type(key) in _PLAIN)
        return
    if not is_users(holder.__module__ if issubclass(type(holder), _NAMED) else type(holder).__module__, home):
        return
    if type(holder) is types.FunctionType:
        yield from ((("default", at), value) for at, value in enumerate(holder.__defaults__ or ()))
        yield from ((("keyword", name), value) for name, value in (holder.__kwdefaults__ or {}).items())
        for at, cell in enumerate(holder.__closure__ or ()):
            try:
                yield ("cell", at), cell.cell_contents
            except ValueError:  # not assigned yet
                continue
    attributes = object.__getattribute__(holder, "__dict__")
    yield from ((("attribute", name), value) for name, value in list(attributes.items()))


def _places_in_libraries(value: Any) -> Iterator[_Place]:
    """Yield where libraries hold an object: that of its class; any, where it is a bare object."""
    home = type(value).__module__.partition(".")[0]
    for name, module in list(sys.modules.items()):
        if home in ("builtins", name.partition(".")[0]) and isinstance(module, types.ModuleType):
            for attribute, found in list(vars(module).items()):
                if found is value:
                    yield name, (("item", attribute),), value


# Called by pickle when a checkpoint is loaded.


def constant_value(root: Any, way: Way, copy: Any) -> Any:
    """Return what stands for a value in `Constants.values`."""
    return next((found for found in _found(root, way) if _is_same(found, copy)), copy)


def _constant(root: Any, way: Way, cls: type, attributes: dict[str, Any]) -> Any:
    for found in _found(root, way):
        if type(found) is cls and _is_same(dict(getattr(found, "__dict__", {})), attributes):
            return found
    made: Any = object.__new__(cls)
    if attributes:
        vars(made).update(attributes)
    return made


def _is_same(one: object, other: object) -> bool:
    """Whether plain values, or containers of them, are of the same types and equal."""
    if type(one) is not type(other):
        return False
    try:
        return repr(one) == repr(other)
    except ValueError:  # a whole number that is too long to be written
        return one == other


def _found(root: Any, way: Way) -> Iterator[Any]:
    """Yield what stands at the end of a way."""
    roots = [root]
    if isinstance(root, str):
        roots = [SHIPPED.get(root, {}), getattr(sys.modules.get(root), "__dict__", {})]
    for found in roots:
        with suppress(KeyError, IndexError, TypeError, AttributeError, ValueError):
            for kind, key in way:
                found = _next(found, kind, key)
            yield found


def _next(holder: Any, kind: str, key: Any) -> Any:
    match kind:
        case "item":
            return holder[key]
        case "default":
            return holder.__defaults__[key]
        case "keyword":
            return holder.__kwdefaults__[key]
        case "cell":
            return holder.__closure__[key].cell_contents
        case _:
            return vars(holder)[key]
