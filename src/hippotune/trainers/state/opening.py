"""What an object holds that a checkpoint keeps, and what it is by itself, for a fingerprint."""

from __future__ import annotations

import copyreg
import functools
import io
import random
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
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
from hippotune.trainers.state import arrays, contents, others, walk
from hippotune.trainers.state.functions import is_found_by_name

Child = tuple[Any, Any]

CONTAINERS: frozenset[type] = frozenset({list, tuple, deque, dict})
_INSIDE = " (inside)"
_ARRAY_REDUCE: Any = np.ndarray.__reduce__
_OF_MODULES = ("_parameters", "_buffers", "_modules")
# What nobody can tell from an equal one: being one object or two means nothing.
NO_IDENTITY: tuple[type, ...] = (
    *(tuple, frozenset, np.generic, np.dtype, Enum, PurePath, Decimal, Fraction, date, time, timedelta),
    *(tzinfo, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.CodeType, type),
    *(types.ModuleType, type(iter([])), type(iter(()))),
)
_DEFAULTS = ("_is_full_backward_hook", "_non_persistent_buffers_set")  # of modules, mostly empty


@dataclass(frozen=True, slots=True)
class Key:
    """An object that is the key of a dict, the `number`-th of it; the way to the key, or to its value."""

    key: Any
    number: int
    is_value: bool


@dataclass
class Opened:
    """An object opened: what it is (`text` for people, `token` for telling it apart), and what it holds.

    `items` are the objects in a set; `order` is the order in which a set of plain values is gone through.
    `unsaved` is what the object holds beside what is saved of it.
    """

    text: str | None
    token: str
    children: list[Child] = field(default_factory=list)
    shape: tuple[int, ...] = ()
    items: list[Any] | None = None
    order: str | None = None
    unsaved: list[Child] = field(default_factory=list)


def opened(value: Any, is_root: bool, is_saved: bool = True) -> Opened:
    """Return what an object is and holds. One that `is_saved` may be asked what pickle would save of it."""
    kind = type(value)
    name = _name_of(kind)
    if kind is dict:
        return _mapping(value, name)
    if kind in CONTAINERS or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return _sequence(value, name, value)
    if isinstance(value, (type, types.ModuleType)):
        return Opened(_name_of(value), f"{name} {_name_of(value)}")
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
        return Opened(_described(value), name, list(walk.children(value)))
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
        return Opened(_described(value), name)  # a number, and the dict of a module that it belongs to
    if walk.is_torch(value, "UntypedStorage") or walk.is_torch(value, "TypedStorage"):
        from hippotune.trainers.state.memory import bytes_of

        return Opened(
            _described(value), name, [(_INSIDE, bytes_of(getattr(value, "_untyped_storage", value)))]
        )
    if kind.__module__.startswith("torch._dynamo"):  # compiled: what counts is what was
        inner = getattr(value, "_orig_mod", None)
        return Opened(_described(value), name, [] if inner is None else [("._orig_mod", inner)])
    if not is_saved and isinstance(value, (dict, list)):
        return _mapping(value, name) if isinstance(value, dict) else _sequence(value, name, value)
    if not is_saved or (is_root and isinstance(value, Trainer)):
        return Opened(_described(value), name, list(walk.attributes(value)))
    return _reduced(value, name)


def _function(function: types.FunctionType) -> Opened:
    name = _name_of(function)
    if is_found_by_name(function):
        return Opened(name, name)
    return Opened(name, f"{name} {code_text(function.__code__)}", list(walk.children(function)))


def _sequence(value: Any, name: str, items: Any) -> Opened:
    length = len(items)
    text = f"{_described(value)} of {plural(length, 'item')}"
    token = f"{name} {length} {getattr(value, 'maxlen', '')}"
    if hasattr(value, "_fields"):
        return Opened(text, token, list(walk.children(value)), (length,))
    return Opened(text, token, [(f"[{index}]", item) for index, item in enumerate(items)], (length,))


def _iterator(left: Any) -> Opened:
    """Open an iterator by what it still yields: a copy may go through something else."""
    length = len(left)
    text = f"an iterator of {plural(length, 'item')} to come"
    return Opened(
        text, f"iterator {length}", [(f"[{index}]", it) for index, it in enumerate(left)], (length,)
    )


def _set(value: Any, name: str) -> Opened:
    items = list(value)
    attributes = [] if isinstance(value, weakref.WeakSet) else list(walk.attributes(value))
    if not all(type(item) in walk.ATOMS for item in items):
        text = f"{_described(value)} of {plural(len(items), 'item')}"
        return Opened(text, f"{name} {len(items)}", attributes, (len(items),), items)
    written = sorted(f"{type(item).__name__} {item!r}" for item in items)
    in_order = sorted(items, key=lambda item: f"{type(item).__name__} {item!r}")
    text = listing(f"{_described(value)} of", in_order) if items else f"an empty {type(value).__name__}"
    order = listing("a set that is gone through as", items) if len(items) > 1 else None
    if order is not None and len(items) > 6:
        order += f" ({contents.digest(repr(items).encode())})"
    return Opened(text, f"{name} {written}", attributes, (), None, order)


def _mapping(value: Mapping[Any, Any], name: str) -> Opened:
    children, keys = _items(value.items())
    text = listing(f"{_described(value)} with", keys) if keys else f"an empty {type(value).__name__}"
    return Opened(text, f"{name} {_written(keys)}", children)


def _items(items: Any) -> tuple[list[Child], list[Any]]:
    children: list[Child] = []
    keys = []
    for number, (key, item) in enumerate(list(items)):
        if type(key) in walk.ATOMS:
            keys.append(key)
            children.append((f"[{walk.short(key)}]", item))
        else:
            keys.append(_Unnamed(type(key).__name__))
            children += [(Key(key, number, False), key), (Key(key, number, True), item)]
    return children, keys


class _Unnamed:
    """Stands for a key that is an object: it is a child by itself."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __repr__(self) -> str:
        return f"<{self._kind}>"


def _written(keys: list[Any]) -> str:
    return str([f"{type(key).__name__} {key!r}" for key in keys])


# Objects by what pickle would save of them.


def _reduced(value: Any, name: str) -> Opened:
    if isinstance(value, np.ma.MaskedArray):
        _ = value.fill_value  # asked for, there is a default, as after a load
    try:
        reduced = _reduction(value)
    except Exception:  # it cannot be saved: by its type, and by what it shows
        return Opened(_described(value), name, list(walk.attributes(value)))
    if isinstance(reduced, str):
        return Opened(reduced, f"{name} {reduced}")
    padded: tuple[Any, ...] = (*tuple(reduced), None, None, None, None)
    function, arguments, state, items, pairs = padded[:5]
    if function is iter and len(arguments) == 1 and isinstance(arguments[0], (list, tuple, str)):
        return _iterator(arguments[0][state or 0 :])
    if walk.is_torch(value, "nn.parallel.DistributedDataParallel"):
        return opened(arguments[0], False)  # a checkpoint is the same at every width
    if arguments and isinstance(arguments[0], type) and issubclass(type(value), arguments[0]):
        arguments = arguments[1:]
    children: list[Child] = [(_INSIDE, argument) for argument in arguments or ()]
    saved = _attributes_in(state)
    if saved is None:
        children += [] if state is None else [(_INSIDE, _without_empty_dict(value, state))]
        saved = {}
        if state is None and not isinstance(value, (list, dict)) and not arguments:
            saved = dict(_own(value))
    unsaved = [(f".{it}", part) for it, part in _own(value) if it not in saved or saved[it] is not part]
    if walk.is_torch(value, "nn.Module"):
        unsaved.append((".training", value.training))  # it counts where a step makes something of it
        return Opened(_described(value), name, list(_module_parts(value, saved)), unsaved=unsaved)
    has_hooks = walk.is_torch(value, "optim.Optimizer")
    if has_hooks and isinstance(defaults := saved.get("defaults"), dict):
        saved = {**saved, "defaults": {**defaults, "differentiable": defaults.get("differentiable", False)}}
    children += [(f".{it}", part) for it, part in _without_hook_numbers(saved, has_hooks)]
    text, token = _described(value), f"{name} {_name_of(function)}"
    shape: tuple[int, ...] = ()
    if items is not None:
        listed = list(items)
        children += [(f"[{index}]", item) for index, item in enumerate(listed)]
        if isinstance(value, list):
            text, shape = f"{text} of {len(listed):,} items", (len(listed),)
        token += f" {len(listed)}"
    if pairs is not None:
        more, keys = _items(pairs)
        children += more
        text, token = listing(f"{text} with", keys) if keys else text, f"{token} {_written(keys)}"
    return Opened(text, token, children, shape, unsaved=unsaved)


def _reduction(value: Any) -> Any:
    kind = type(value)
    reducer: Callable[[Any], Any] | None = None
    if "torch" in sys.modules:
        from hippotune.trainers.state import tensors

        is_function = isinstance(value, types.FunctionType)
        reducer = tensors.reduce_compiled if is_function else tensors.reducer_for(kind)
    if reducer is None:
        reducer = others.reducer_for(kind)
    reduced = None if reducer is None else reducer(value)
    if reduced is None and (registered := copyreg.dispatch_table.get(kind)) is not None:
        reduced = registered(value)
    return value.__reduce_ex__(4) if reduced is None else reduced


def _without_empty_dict(value: Any, state: Any) -> Any:
    """Leave out the attributes of a file in memory that has none: whether it has a dict means nothing."""
    return state[:-1] if isinstance(value, io.IOBase) and not state[-1] else state


def _attributes_in(state: Any) -> dict[str, Any] | None:
    """Return the attributes that a reduced state has; None where it is something else."""
    if isinstance(state, tuple) and len(state) == 2 and all(isinstance(it, dict | None) for it in state):
        return {**(state[0] or {}), **(state[1] or {})}
    if isinstance(state, dict) and all(isinstance(name, str) for name in state):
        return state
    return None


def _own(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes that an object has in its dict."""
    if isinstance(attributes := getattr(value, "__dict__", None), dict):
        yield from list(attributes.items())


def _module_parts(module: Any, saved: dict[str, Any]) -> Iterator[Child]:
    """Yield what a module holds, by the names that torch gives it; not what it computes in every call."""
    from hippotune.trainers.state import tensors

    computed = tensors.computed_names(module)
    for name, item in _without_hook_numbers(saved, True):
        if name in computed or name == "training":
            continue
        if name in _OF_MODULES and isinstance(item, dict):
            yield from ((f".{inner}", part) for inner, part in list(item.items()) if part is not None)
            if item:
                yield (f".{name}", ", ".join(item))
        elif name not in _DEFAULTS or item:
            yield (f".{name}", item)


def _without_hook_numbers(saved: dict[str, Any], has_hooks: bool) -> Iterator[tuple[str, Any]]:
    """Leave out the numbers of torch's hooks, which all hooks of a process share: only their order counts."""
    for name, item in saved.items():
        is_by_number = has_hooks and "_hooks" in name and isinstance(item, dict)
        if not is_by_number:
            yield name, item
        elif item:
            yield name, list(item.values())


def listing(text: str, items: Any) -> str:
    """Return the first few items after a text."""
    shown = [walk.short(item) for _, item in zip(range(6), items, strict=False)]
    return f"{text} {', '.join(shown)}{', …' if len(items) > 6 else ''}"


def _name_of(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return str(value.__name__)
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"


def _described(value: Any) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"


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
