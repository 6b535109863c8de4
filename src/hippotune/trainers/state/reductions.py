"""Objects by what pickle would save of them, for a fingerprint."""

from __future__ import annotations

import copyreg
import io
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hippotune.short import plural
from hippotune.trainers.state import others, walk
from hippotune.trainers.state.opened import (
    INSIDE,
    Child,
    Opened,
    described,
    items_of,
    listing,
    name_of,
    written,
)

_OF_MODULES = ("_parameters", "_buffers", "_modules")
_DEFAULTS = ("_is_full_backward_hook", "_non_persistent_buffers_set")  # of modules, mostly empty


def reduced(value: Any, name: str) -> Opened:
    """Open an object by what pickle would save of it; without that, by its attributes."""
    if isinstance(value, np.ma.MaskedArray) and value is not np.ma.masked:
        _ = value.fill_value  # asked for, there is a default, as after a load
    try:
        made_of = _reduction(value)
    except Exception:  # it cannot be saved: by its type, and by what it shows
        return Opened(described(value), name, list(walk.attributes(value)))
    if isinstance(made_of, str):
        return Opened(made_of, f"{name} {made_of}")
    padded: tuple[Any, ...] = (*tuple(made_of), None, None, None, None)
    function, arguments, state, items, pairs = padded[:5]
    if function is iter and len(arguments) == 1 and isinstance(arguments[0], (list, tuple, str)):
        return _iterator(arguments[0][state or 0 :])
    if arguments and isinstance(arguments[0], type) and issubclass(type(value), arguments[0]):
        arguments = arguments[1:]
    children: list[Child] = [(INSIDE, argument) for argument in arguments or ()]
    saved = _attributes_in(state)
    if saved is None:
        children += [] if state is None else [(INSIDE, _without_empty_dict(value, state))]
        saved = {}
        if state is None and not isinstance(value, (list, dict)) and not arguments:
            saved = dict(_own(value))
    unsaved = [(f".{it}", part) for it, part in _own(value) if it not in saved or saved[it] is not part]
    if walk.is_torch(value, "nn.Module"):
        unsaved.append((".training", value.training))  # it counts where a step makes something of it
        return Opened(described(value), name, list(_module_parts(value, saved)), unsaved=unsaved)
    has_hooks = walk.is_torch(value, "optim.Optimizer")
    if has_hooks and isinstance(defaults := saved.get("defaults"), dict):
        saved = {**saved, "defaults": {**defaults, "differentiable": defaults.get("differentiable", False)}}
    children += [(f".{it}", part) for it, part in _without_hook_numbers(saved, has_hooks)]
    text, token = described(value), f"{name} {name_of(function)}"
    shape: tuple[int, ...] = ()
    if items is not None:
        listed = list(items)
        children += [(f"[{index}]", item) for index, item in enumerate(listed)]
        if isinstance(value, list):
            text, shape = f"{text} of {len(listed):,} items", (len(listed),)
        token += f" {len(listed)}"
    if pairs is not None:
        more, keys = items_of(pairs)
        children += more
        text, token = listing(f"{text} with", keys) if keys else text, f"{token} {written(keys)}"
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
    made_of = None if reducer is None else reducer(value)
    if made_of is None and (registered := copyreg.dispatch_table.get(kind)) is not None:
        made_of = registered(value)
    return value.__reduce_ex__(4) if made_of is None else made_of


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


def _iterator(left: Any) -> Opened:
    """Open an iterator by what it still yields: a copy may go through something else."""
    length = len(left)
    text = f"an iterator of {plural(length, 'item')} to come"
    return Opened(
        text, f"iterator {length}", [(f"[{index}]", it) for index, it in enumerate(left)], (length,)
    )
