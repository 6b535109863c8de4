"""Objects of the standard library as state: made anew, opened again, or bound to what they refer to."""

from __future__ import annotations

import enum
import gc
import io
import random
import sys
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from hippotune.trainers.state.functions import reduce_cell, reduce_module
from hippotune.trainers.state.refusals import Refused, may_be_refused, reason_of

Reduced = tuple[Any, ...]


def reducer_for(kind: type) -> Callable[[Any], Any] | None:
    """Return how objects of a kind are reduced for pickle; None where its own way is right."""
    if kind in _REDUCERS:
        return _REDUCERS[kind]
    if issubclass(kind, enum.Enum):
        return _reduce_member
    if issubclass(kind, types.ModuleType) and kind is not types.ModuleType:
        return reduce_module
    if hasattr(kind, "__getattr__") and is_pickled_by_default(kind):
        return _reduce_forwarding
    if issubclass(kind, io.IOBase) and not issubclass(kind, (io.BytesIO, io.StringIO)):
        return _reduce_file
    return _refuse_if_known if may_be_refused(kind) else None


def is_pickled_by_default(kind: Any) -> bool:
    """Whether a class says nothing of how its objects are pickled."""
    return (
        kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and kind.__getstate__ is object.__getstate__
        and not hasattr(kind, "__setstate__")
        and not hasattr(kind, "__getnewargs_ex__")
        and not hasattr(kind, "__getnewargs__")
    )


def _reduce_forwarding(value: Any) -> Reduced | None:
    """An object that answers to every name: pickle would ask it for methods before it holds anything."""
    function, arguments, state, *_ = cast(Reduced, object.__reduce_ex__(value, 4))
    _refuse_if_known(value)
    return function, arguments, state, None, None, _set_state


def _reduce_member(member: enum.Enum) -> Reduced | None:
    """By its name: after a load its value may be a copy, which is no member's. A combination has none."""
    cls = type(member)
    return (getattr, (cls, member._name_)) if cls.__members__.get(member._name_) is member else None


def _reduce_memoryview(view: memoryview) -> Reduced:
    whole = memoryview(view.obj)
    if (view.format, view.shape, view.strides) != (whole.format, whole.shape, whole.strides):
        raise Refused(view, "is a view of a part of some memory, which cannot be saved; keep the whole")
    return memoryview, (view.obj,)


def _refuse_if_known(value: object) -> None:
    if (reason := reason_of(value)) is not None:
        raise Refused(value, reason)


def _reduce_file(file: Any) -> Reduced:
    for name in ("stdout", "stderr", "stdin"):
        if file is getattr(sys, name):
            return getattr, (sys, name)
    _refuse_if_known(file)
    try:
        if file.closed:
            return _closed_file, (file.name, file.mode)
        encoding = {"encoding": file.encoding, "errors": file.errors} if hasattr(file, "encoding") else {}
        return _open_file, (file.name, file.mode, encoding, file.tell())
    except (OSError, AttributeError, ValueError) as error:
        raise Refused(
            file,
            f"is an open file whose place cannot be saved ({error}). Read it in prepare(), or read it with "
            "readline() instead of iterating over it",
        ) from None


def _reduce_reference(reference: weakref.ref[Any]) -> Reduced:
    target = reference()
    if target is None:
        return _dead_reference, ()
    callback = reference.__callback__
    return weakref.ref, (target,) if callback is None else (target, callback)


def _reduce_proxy(proxy: Any) -> Reduced:
    try:
        target = proxy.__reduce_ex__.__self__  # a proxy hands on everything, so this is what it stands for
    except ReferenceError:
        return _dead_proxy, ()
    return weakref.proxy, (target,)


def _underlying(view: Any) -> Any:
    """Return the dict that a view or a read-only proxy is one of: all that it refers to."""
    return gc.get_referents(view)[0]


def _reduce_python_generator(generator: random.Random) -> Reduced | None:
    """The generator behind ``random.random`` stays the shared one."""
    shared = cast(Any, random)._inst
    return (getattr, (random, "_inst")) if generator is shared else None


def _reduce_numpy_generator(generator: np.random.RandomState) -> Reduced | None:
    """The generator behind ``numpy.random.rand`` stays the shared one."""
    shared = cast(Any, np.random).mtrand
    return (getattr, (shared, "_rand")) if generator is shared._rand else None


# Called by pickle when a checkpoint is loaded.


def _open_file(name: Any, mode: str, encoding: dict[str, Any], place: int) -> Any:
    file = open(name, mode, **encoding)  # noqa: SIM115 - it stays open
    file.seek(place)
    return file


def _closed_file(name: Any, mode: str) -> Any:
    file = open(name, "rb" if "b" in mode else "r")  # noqa: SIM115
    file.close()
    return file


class _Gone:
    """Nothing refers to it."""


def _dead_reference() -> weakref.ref[Any]:
    return weakref.ref(_Gone())


def _dead_proxy() -> Any:
    return weakref.proxy(_Gone())


def _set_state(value: Any, state: Any) -> None:
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if attributes:
        object.__getattribute__(value, "__dict__").update(attributes)
    for name, content in (slots or {}).items():
        object.__setattr__(value, name, content)


_REDUCERS: dict[type, Callable[[Any], Any]] = {
    types.CellType: reduce_cell,
    type(threading.Lock()): lambda _: (threading.Lock, ()),
    type(threading.RLock()): lambda _: (threading.RLock, ()),
    weakref.ref: _reduce_reference,
    weakref.WeakValueDictionary: lambda value: (weakref.WeakValueDictionary, (dict(value),)),
    weakref.WeakKeyDictionary: lambda value: (weakref.WeakKeyDictionary, (dict(value),)),
    weakref.WeakSet: lambda value: (weakref.WeakSet, (list(value),)),
    weakref.ProxyType: _reduce_proxy,
    weakref.CallableProxyType: _reduce_proxy,
    types.MappingProxyType: lambda value: (types.MappingProxyType, (_underlying(value),)),
    type({}.keys()): lambda value: (dict.keys, (_underlying(value),)),
    type({}.values()): lambda value: (dict.values, (_underlying(value),)),
    type({}.items()): lambda value: (dict.items, (_underlying(value),)),
    type(OrderedDict().keys()): lambda value: (OrderedDict.keys, (_underlying(value),)),
    type(OrderedDict().values()): lambda value: (OrderedDict.values, (_underlying(value),)),
    type(OrderedDict().items()): lambda value: (OrderedDict.items, (_underlying(value),)),
    random.Random: _reduce_python_generator,
    np.random.RandomState: _reduce_numpy_generator,
    memoryview: _reduce_memoryview,
    type(np.ma.masked): lambda _: (getattr, (np.ma, "masked")),
}
