"""What objects hold, and what they are by themselves, as far as a program can see: for comparing them."""

from __future__ import annotations

import random
import types
import weakref
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from hippotune.trainers.state import arrays, leaves, walk
from hippotune.trainers.state.leaves import Told

_ITERATORS: tuple[type, ...] = (type(iter([])), type(iter(())))
SEQUENCES = (list, tuple, deque, *_ITERATORS)
_BY_NAME = (type, types.ModuleType)
_PLAIN = (int, float, complex, str, bytes, bytearray)
SET_ORDER = "a set that is gone through as"
# What nobody can tell from an equal one: being one object or two means nothing.
NO_IDENTITY = (
    *(tuple, frozenset, np.generic, np.dtype, Enum, PurePath, Decimal, Fraction, date, time, timedelta),
    *(tzinfo, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.CodeType, *_BY_NAME),
    *_ITERATORS,
)


class Part(NamedTuple):
    """Something that an object holds. Parts of two objects belong together where their tokens are equal."""

    token: Hashable
    step: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Key:
    """An object that is the key of a dict, the `number`-th of it."""

    key: Any
    number: int


def own_difference(one: Any, other: Any) -> Told | None:
    """Return how two objects differ in what they do not hold as parts."""
    if isinstance(one, (np.generic, np.ndarray)):
        return leaves.array_difference(np.asarray(one), np.asarray(other))
    if walk.is_tensor(one):
        return leaves.tensor_difference(one, other)
    same = True
    if isinstance(one, _PLAIN):
        same = leaves.same_atom(one, other)
    elif isinstance(one, (PurePath, Enum, Decimal, Fraction, date, time, timedelta, np.dtype)):
        same = one == other and str(one) == str(other)
    elif isinstance(one, _BY_NAME):
        same = _name_of(one) == _name_of(other)
    elif isinstance(one, types.FunctionType):
        same = one.__code__ == other.__code__ and _name_of(one) == _name_of(other)
    elif isinstance(one, types.BuiltinFunctionType):
        same = one.__qualname__ == other.__qualname__
    elif isinstance(one, types.CodeType):
        same = one == other
    elif isinstance(one, memoryview):
        same = one.tobytes() == other.tobytes()
    elif isinstance(one, deque):
        same = one.maxlen == other.maxlen
    return None if same else Told(described(one), described(other))


def random_state(value: Any) -> Any:
    """Return the state of a random generator; None for anything else."""
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.BitGenerator):
        return value.state
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.random.RandomState):
        return value.get_state(legacy=False)
    return (str(value.device), value.get_state()) if walk.is_torch(value, "Generator") else None


def memory(value: Any) -> tuple[Hashable, int] | None:
    """Return the memory that an array or a tensor is a view of, and where in it the view begins."""
    if isinstance(value, np.ndarray) and value.nbytes and not value.dtype.hasobject:
        root = arrays.root_of(value)
        if isinstance(root, np.ndarray):
            return ("memory", id(root)), arrays.address(value) - arrays.address(root)
    elif walk.is_tensor(value) and str(value.layout) == "torch.strided" and not value.is_nested:
        storage = value.untyped_storage()
        if storage.nbytes() and value.device.type != "meta":
            return ("storage", storage._cdata), value.storage_offset() * value.element_size()
    return None


def parts(value: Any) -> Iterator[Part]:
    """Yield what an object holds."""
    if isinstance(value, _BY_NAME):
        return
    if isinstance(value, Mapping):
        yield from _mapping_parts(value)
        children: Iterator[walk.Child] = walk.attributes(value)
    elif isinstance(value, Set):
        children = iter(()) if type(value) is weakref.WeakSet else walk.attributes(value)  # not its items
    elif isinstance(value, types.BuiltinFunctionType):
        children = iter([(".__self__", value.__self__)])
    elif isinstance(value, _ITERATORS):
        children = iter([(f"[{index}]", item) for index, item in enumerate(_left(value))])
    elif isinstance(value, (PurePath, Enum, np.generic, np.dtype, Decimal, Fraction)):
        return
    else:
        children = _without_hook_numbers(value, walk.children(value))
    yield from (Part((text, number), text, child) for text, number, child in _numbered(children))
    yield from _hidden_parts(value)


def _without_hook_numbers(value: Any, children: Iterator[walk.Child]) -> Iterator[walk.Child]:
    """Leave out the numbers of torch's hooks, which all hooks of a process share: only their order counts."""
    if walk.is_torch(value, "utils.hooks.RemovableHandle"):
        return  # a number, and the dict of a module that it belongs to
    has_hooks = walk.is_torch(value, "nn.Module") or walk.is_torch(value, "optim.Optimizer")
    for text, child in children:
        is_by_number = has_hooks and "_hooks" in text and isinstance(child, dict)
        yield text, list(child.values()) if is_by_number else child


def _numbered(children: Iterator[walk.Child]) -> Iterator[tuple[str, int, Any]]:
    """Number the children that have the same text, so that all are told apart."""
    seen: dict[str, int] = {}
    for text, child in children:
        seen[text] = seen.get(text, -1) + 1
        yield text, seen[text], child


def _mapping_parts(value: Mapping[Any, Any]) -> Iterator[Part]:
    for number, (key, item) in enumerate(list(value.items())):
        if type(key) in walk.ATOMS:
            yield Part((type(key), repr(key)), f"[{walk.short(key)}]", item)
        else:
            step = Key(key, number)
            yield Part(("key", number), Key(key, number), key)
            yield Part(("value", number), step, item)


def _hidden_parts(value: Any) -> Iterator[Part]:
    """Yield what an object holds where `walk.children` does not look."""
    if walk.is_tensor(value):
        yield from (Part(text, text, part) for text, part in leaves.tensor_parts(value))
    elif walk.is_torch(value, "nn.Module"):
        for name in ("_parameters", "_buffers", "_modules"):
            yield Part(name, f".{name}", tuple(vars(value).get(name) or ()))
    elif hasattr(value, "__dict__") and _is_reduced_in_c(type(value)):
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # it cannot be pickled, and shows nothing else
            return
        if isinstance(reduced, tuple):  # its attributes were looked at already
            reduced = tuple(part for part in reduced[1:3] if part is not vars(value))
        yield Part("reduced", None, reduced)


def _is_reduced_in_c(kind: type) -> bool:
    """Return whether a type of C says what its state is, beside the attributes of a subclass in Python."""
    if issubclass(kind, (list, tuple, dict, set, frozenset, deque, np.ndarray, types.FunctionType)):
        return False
    return any(
        getattr(kind, name) is not getattr(object, name)
        and not isinstance(getattr(kind, name), types.FunctionType)
        for name in ("__reduce__", "__reduce_ex__")
    )


def _left(iterator: Any) -> Any:
    """Return what an iterator of a list or a tuple still yields."""
    _, arguments, *index = iterator.__reduce__()
    return arguments[0][index[0] if index and index[0] else 0 :]


def set_difference(one: Set[Any], other: Set[Any]) -> Told | None:
    """Return how two sets of plain values differ; sets of objects are compared item by item."""
    if not all(type(item) in walk.ATOMS for item in (*one, *other)):
        if len(one) == len(other):
            return None  # item by item, in the order in which they come
        return Told(f"a set of {len(one)} items", f"a set of {len(other)} items")
    ours, theirs = ([(type(item), repr(item)) for item in items] for items in (one, other))
    if ours == theirs:
        return None
    if sorted(map(str, ours)) == sorted(map(str, theirs)):
        return Told(listing(SET_ORDER, one), listing("as", other))
    return Told(walk.short(one), walk.short(other))


def listing(text: str, items: Any) -> str:
    """Return the first few items after a text."""
    shown = [walk.short(item) for _, item in zip(range(6), items, strict=False)]
    return f"{text} {', '.join(shown)}{', …' if len(items) > 6 else ''}"


def _name_of(value: Any) -> tuple[Any, Any]:
    if isinstance(value, types.ModuleType):
        return None, value.__name__
    return value.__module__, value.__qualname__


def described(value: Any) -> str:
    """Return in short what a value is."""
    if type(value) in walk.ATOMS:
        return walk.short(value)
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return str(value.__qualname__)
    if isinstance(
        value, (*_PLAIN, PurePath, Enum, Decimal, Fraction, date, time, timedelta, np.dtype, np.generic)
    ):
        return walk.short(value)
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"
