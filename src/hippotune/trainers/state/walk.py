"""Going through an object graph by name: what an object holds, and where on the trainer something is.

Names are written as a user would: ``self.agent.target.0.weight``, ``self.buffer[3]``, ``self.table['a']``.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import numpy as np

from hippotune.identity.members import slot_names

ATOMS: frozenset[type] = frozenset(
    {type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range, slice}
)
_OPAQUE = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType)
_LONGEST_KEY = 40
_LONG = 1000

Child = tuple[str, Any]


def children(value: Any, reduced: bool = True, exact: bool = False) -> Iterator[Child]:
    """Yield what an object holds, each with the text that leads there from the object.

    Of one that shows nothing by itself, yield what pickle would save of it, unless `reduced` is false. Texts
    are short, for people; `exact` ones tell all children apart, and are the same in every process.
    """
    kind = type(value)
    if kind in ATOMS or issubclass(kind, _OPAQUE):
        return
    if issubclass(kind, Mapping):
        yield from _mapping_children(value, exact)
    elif issubclass(kind, tuple) and hasattr(value, "_fields"):
        yield from ((f".{name}", getattr(value, name)) for name in value._fields)
    elif issubclass(kind, (list, tuple, deque)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif issubclass(kind, Set):
        texts = ((str(place) if exact else short(item), item) for place, item in enumerate(value))
        yield from ((f"{{{text}}}", item) for text, item in texts)
    elif issubclass(kind, np.ndarray):
        if value.dtype == object:
            yield from ((f".flat[{index}]", item) for index, item in enumerate(value.flat))
    elif issubclass(kind, types.FunctionType):
        yield from _function_children(value)
    elif issubclass(kind, types.MethodType):
        yield from ((".__self__", value.__self__), (".__func__", value.__func__))
    elif issubclass(kind, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif issubclass(kind, types.CellType):
        try:
            yield (".cell_contents", value.cell_contents)
        except ValueError:  # empty
            return
    elif issubclass(kind, weakref.ref):
        yield ("()", value())
    elif is_tensor(value):
        if value.is_leaf and value.grad is not None:
            yield (".grad", value.grad)
    elif reduced and not hasattr(value, "__dict__") and not slot_names(kind):
        yield from _reduced_children(value)
    yield from attributes(value)


def _mapping_children(value: Mapping[Any, Any], exact: bool) -> Iterator[Child]:
    for place, (key, item) in enumerate(list(value.items())):
        is_exact = type(key) in ATOMS  # by its repr
        text = f"[{(repr(key) if is_exact else f'key {place}') if exact else short(key)}]"
        if type(key) not in ATOMS:
            yield (f"{text}'s key", key)
        yield (text, item)


def _function_children(function: types.FunctionType) -> Iterator[Child]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield (f".<{name}>", cell)
    for index, item in enumerate(function.__defaults__ or ()):
        yield (f".__defaults__[{index}]", item)
    for name, item in (function.__kwdefaults__ or {}).items():
        yield (f".__kwdefaults__[{name!r}]", item)


def attributes(value: Any) -> Iterator[Child]:
    """Yield what an object holds as attributes; those of a module by the names that torch gives them."""
    named = getattr(value, "__dict__", None)
    if isinstance(named, dict):
        is_module = is_torch(value, "nn.Module")
        for name, item in list(named.items()):
            if is_module and name in ("_parameters", "_buffers", "_modules") and isinstance(item, dict):
                yield from ((f".{inner}", part) for inner, part in list(item.items()) if part is not None)
            else:
                yield (f".{name}", item)
    for name in slot_names(type(value)):
        if hasattr(value, name):
            yield (f".{name}", getattr(value, name))


def _reduced_children(value: Any) -> Iterator[Child]:
    """Yield what pickle would save of an object that shows nothing by itself: an iterator, for example."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        return
    if isinstance(reduced, tuple):
        for part in reduced[1:3]:
            if isinstance(part, tuple):
                yield from ((" (inside)", item) for item in part)
            elif part is not None:
                yield (" (inside)", part)


def short(key: object) -> str:
    """Return a value as Python writes it, cut where that is long."""
    try:
        text = repr(key)
    except Exception:  # what a user's __repr__ raises must not hide the name
        text = f"<{type(key).__name__}>"
    return text if len(text) <= _LONGEST_KEY else f"{text[: _LONGEST_KEY - 3]}..."


def objects(
    root: Any,
    name: str = "self",
    most: int | None = None,
    reduced: bool = True,
    exact: bool = False,
    enter: Callable[[Any], bool] = lambda value: True,
) -> Iterator[tuple[str, Any]]:
    """Yield every object that can be reached, once, by its shortest name, the nearest first.

    Plain values are left out, long texts excepted. What `enter` says no to is not looked into.
    """
    seen = {id(root)}
    kept = [root]  # what is made on the way must not be freed, or its id would come again
    waiting = deque([(name, root)])
    while waiting and (most is None or len(kept) <= most):
        path, value = waiting.popleft()
        yield path, value
        for text, child in children(value, reduced, exact) if enter(value) else ():
            if id(child) not in seen and (type(child) not in ATOMS or _is_long(child)):
                seen.add(id(child))
                kept.append(child)
                waiting.append((path + text if exact else joined(path, text), child))


def _is_long(value: Any) -> bool:
    return isinstance(value, (str, bytes)) and len(value) > _LONG


def joined(path: str, text: str) -> str:
    """Return the name of what an object with the name `path` holds at `text`."""
    return path if text in (".cell_contents", " (inside)") else path + text


def find(root: Any, wanted: Callable[[Any], bool]) -> str | None:
    """Return the shortest name of an object that is `wanted`; None where there is none."""
    return next((path for path, value in objects(root) if wanted(value)), None)


def is_torch(value: object, name: str) -> bool:
    """Return whether a value is an instance of a class of torch; torch is not imported for that."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    cls: Any = torch
    for part in name.split("."):
        cls = getattr(cls, part, None)
        if cls is None:  # still being imported
            return False
    return isinstance(value, cls)


def is_tensor(value: object) -> bool:
    """Return whether a value is a torch tensor; a lazy module's parameter, without a content yet, is not."""
    return is_torch(value, "Tensor") and not is_torch(value, "nn.parameter.UninitializedTensorMixin")
