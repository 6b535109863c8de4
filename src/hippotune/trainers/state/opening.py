"""What an object holds that a checkpoint keeps, and what it is by itself, for a fingerprint."""

from __future__ import annotations

import functools
import random
import types
import weakref
from collections import deque
from collections.abc import Hashable, Mapping
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any

import numpy as np

from hippotune.identity.bytecode import code_text
from hippotune.short import plural
from hippotune.trainers.base import Trainer
from hippotune.trainers.state import arrays, contents, walk
from hippotune.trainers.state.functions import is_found_by_name
from hippotune.trainers.state.opened import INSIDE, Opened, described, items_of, listing, name_of, written
from hippotune.trainers.state.reductions import reduced

CONTAINERS: frozenset[type] = frozenset({list, tuple, deque, dict})
_ARRAY_REDUCE: Any = np.ndarray.__reduce__
# Objects that cannot be told from equal ones: being one object or two means nothing.
NO_IDENTITY: tuple[type, ...] = (
    *(tuple, frozenset, np.generic, np.dtype, Enum, PurePath, Decimal, Fraction, date, time, timedelta),
    *(tzinfo, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.CodeType, type),
    *(types.ModuleType, type(iter([])), type(iter(()))),
)


def opened(value: Any, is_root: bool, is_saved: bool = True) -> Opened:
    """Return what an object is and holds. One that `is_saved` may be asked what pickle would save of it."""
    kind = type(value)
    name = name_of(kind)
    if kind is dict:
        return _mapping(value, name, is_saved)
    if kind in CONTAINERS or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return _sequence(value, name, value)
    if isinstance(value, (type, types.ModuleType)):
        return Opened(name_of(value), f"{name} {name_of(value)}")
    if isinstance(value, types.FunctionType) and "_torchdynamo_orig_callable" not in vars(value):
        return _function(value)
    if isinstance(value, types.BuiltinFunctionType):
        children = [] if isinstance(value.__self__, types.ModuleType) else [(".__self__", value.__self__)]
        return Opened(value.__qualname__, value.__qualname__, children)
    if isinstance(value, types.CodeType):
        return Opened(value.co_qualname, code_text(value))
    if isinstance(value, types.CellType):
        return Opened(None, name, list(walk.children(value)))
    if isinstance(value, (types.MethodType, functools.partial)):
        return Opened(described(value), name, list(walk.children(value)))
    if random_state(value) is not None:
        children = [child for child in walk.attributes(value) if child[0] != ".gauss_next"]
        inner = getattr(value, "bit_generator", None)
        return Opened(None, name, children if inner is None else [*children, (".bit_generator", inner)])
    if isinstance(value, np.ndarray) and kind.__reduce__ == _ARRAY_REDUCE:
        is_mapped = isinstance(value, np.memmap)  # loaded, it is an array as any other
        children = [] if is_mapped else list(walk.children(value))
        is_of_objects = value.dtype.hasobject
        text = f"an array of objects with shape {value.shape}" if is_of_objects else None
        return Opened(text, f"{name} {value.shape} {value.dtype}", children)
    if walk.is_tensor(value):
        own = () if value.is_nested else walk.children(value)  # it numbers what it holds
        children = [child for child in own if not child[0].startswith("._dynamo")]
        return Opened(None, "", [*children, *contents.tensor_parts(value)])
    if isinstance(value, (set, frozenset, weakref.WeakSet)):
        return _set(value, name)
    if walk.is_torch(value, "utils.hooks.RemovableHandle"):
        return Opened(described(value), name)  # a number, and the dict of a module that it belongs to
    if walk.is_torch(value, "UntypedStorage") or walk.is_torch(value, "TypedStorage"):
        from hippotune.trainers.state.memory import bytes_of

        return Opened(described(value), name, [(INSIDE, bytes_of(getattr(value, "_untyped_storage", value)))])
    if kind.__module__.startswith("torch._dynamo"):  # compiled: what counts is what was
        inner = getattr(value, "_orig_mod", None)
        return Opened(described(value), name, [] if inner is None else [("._orig_mod", inner)])
    if not is_saved and isinstance(value, (dict, list)):
        return _mapping(value, name, False) if isinstance(value, dict) else _sequence(value, name, value)
    if not is_saved or (is_root and isinstance(value, Trainer)):
        return Opened(described(value), name, list(walk.attributes(value)))
    if walk.is_torch(value, "nn.parallel.DistributedDataParallel"):
        return opened(value.module, False)  # a checkpoint is the same at every width
    return reduced(value, name)


def _function(function: types.FunctionType) -> Opened:
    name = name_of(function)
    if is_found_by_name(function):
        return Opened(name, name)
    return Opened(name, f"{name} {code_text(function.__code__)}", list(walk.children(function)))


def _sequence(value: Any, name: str, items: Any) -> Opened:
    length = len(items)
    text = f"{described(value)} of {plural(length, 'item')}"
    token = f"{name} {length} {getattr(value, 'maxlen', '')}"
    if hasattr(value, "_fields"):
        return Opened(text, token, list(walk.children(value)), (length,))
    return Opened(text, token, [(f"[{index}]", item) for index, item in enumerate(items)], (length,))


def _set(value: Any, name: str) -> Opened:
    items = list(value)
    attributes = [] if isinstance(value, weakref.WeakSet) else list(walk.attributes(value))
    if not all(type(item) in walk.ATOMS for item in items):
        text = f"{described(value)} of {plural(len(items), 'item')}"
        return Opened(text, f"{name} {len(items)}", attributes, (len(items),), items)
    written = sorted(f"{type(item).__name__} {item!r}" for item in items)
    in_order = sorted(items, key=lambda item: f"{type(item).__name__} {item!r}")
    text = listing(f"{described(value)} of", in_order) if items else f"an empty {type(value).__name__}"
    order = listing("a set that is gone through as", items) if len(items) > 1 else None
    if order is not None and len(items) > 6:
        order += f" ({contents.digest(repr(items).encode())})"
    return Opened(text, f"{name} {written}", attributes, (), None, order)


def _mapping(value: Mapping[Any, Any], name: str, is_saved: bool = True) -> Opened:
    """Open a dict. Of one that is not saved, the order counts for nothing: those who load fill it anew."""
    children, keys = items_of(value.items())
    if not is_saved:
        keys.sort(key=lambda key: f"{type(key).__name__} {key!r}")
    text = listing(f"{described(value)} with", keys) if keys else f"an empty {type(value).__name__}"
    return Opened(text, f"{name} {written(keys)}", children)


# What an object is by itself.


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
