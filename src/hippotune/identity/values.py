"""Any value as text: equal text where training would find the same in it, in every process.

Plain values and containers are written out, arrays and tensors by their content, functions and classes by
what `Code` says of them, other objects by their class and state, as pickling would take it apart. Modules,
loggers and locks are known by name. Anything else is `Unidentified`.
"""

from __future__ import annotations

import argparse
import copyreg
import enum
import functools
import logging
import os
import random
import sys
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Protocol

from hippotune.identity.arrays import array_text
from hippotune.identity.bytecode import stores
from hippotune.identity.members import enclosed, is_constant, is_made, slot_names

_LOCKS = (
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Semaphore,
    threading.Event,
    threading.Barrier,
)
_STREAMS = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")
_SHARED_RANDOM = ("random", "numpy.random")


class Unidentified(Exception):
    """A value that cannot be identified: where it was found, and why."""

    def __init__(self, path: str, value: object, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.value = value
        self.why = why


class Code(Protocol):
    """What knows functions, classes and modules."""

    def is_users(self, module: object) -> bool:
        """Whether a module is the user's own."""

    def named(self, value: FunctionType | type | ModuleType) -> str:
        """Return the name of something of the user's own, having taken in what it says."""


class Writer:
    """Writes values that were found in a module; paths near its file are written relative to it."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._written: dict[int, tuple[object, str]] = {}
        self._within: dict[int, int] = {}

    def write(self, value: object, path: str, module: str) -> str:
        """Return the text of a value. `path` says where it was found, for a person to read."""
        plain = _plain(value, module)
        if plain is not None:
            return plain
        known = self._written.get(id(value))
        if known is not None:
            return known[1]
        if id(value) in self._within:
            return f"<itself, {len(self._within) - self._within[id(value)]} up>"
        self._within[id(value)] = len(self._within)
        try:
            text = self._compound(value, path, module)
        except RecursionError:
            raise Unidentified(path, value, "it is nested too deeply") from None
        finally:
            del self._within[id(value)]
        self._written[id(value)] = (value, text)
        return text

    def _compound(self, value: Any, path: str, module: str) -> str:
        match value:
            case enum.Enum():
                return f"{self.name_of(type(value))}.{value.name}"
            case _ if self._code.is_users(getattr(type(value), "__module__", None)):
                return self._object_of_users(value, path, module)
            case tuple() | list() | set() | frozenset() | deque():
                return self._collection(value, path, module)
            case dict() | MappingProxyType():
                return self._mapping(value, path, module)
            case SimpleNamespace() | argparse.Namespace():
                return f"{type(value).__name__}{self._items(sorted(vars(value).items()), path, module)}"
            case _:
                return self._other(value, path, module)

    def _collection(self, value: Any, path: str, module: str) -> str:
        items = [self.write(item, f"{path}[{at}]", module) for at, item in enumerate(value)]
        match value:
            case list():
                text = f"[{', '.join(items)}]"
            case tuple():
                text = f"({', '.join(items)}{',' if len(items) == 1 else ''})"
            case deque():
                text = f"deque([{', '.join(items)}], {value.maxlen})"
            case _:
                text = f"{{{', '.join(sorted(items))}}}"
        return text if type(value) in (list, tuple, set, deque) else f"{self.name_of(type(value))}({text})"

    def _mapping(self, value: Mapping[Any, Any], path: str, module: str) -> str:
        pairs = [
            f"{self.write(key, f'{path} (a key)', module)}: {self.write(item, f'{path}[{key!r}]', module)}"
            for key, item in value.items()
        ]
        text = f"{{{', '.join(pairs)}}}"
        if isinstance(value, defaultdict):
            return f"defaultdict({self.write(value.default_factory, path, module)}, {text})"
        return text if type(value) in (dict, OrderedDict) else f"{self.name_of(type(value))}({text})"

    def _items(self, items: Iterable[tuple[str, Any]], path: str, module: str) -> str:
        written = (f"{name}={self.write(value, f'{path}.{name}', module)}" for name, value in items)
        return f"({', '.join(written)})"

    def _object_of_users(self, value: Any, path: str, module: str) -> str:
        """Write an object by its class and everything on it."""
        if isinstance(value, type | FunctionType | ModuleType):
            return self._other(value, path, module)
        _refuse_what_changes(value, path)
        kind = type(value)
        state = {
            name: each
            for name, each in getattr(value, "__dict__", {}).items()
            if not isinstance(getattr(kind, name, None), functools.cached_property)  # of the rest
        }
        state |= {name: getattr(value, name) for name in slot_names(kind) if hasattr(value, name)}
        content = ""
        match value:
            case dict():
                content = self._mapping(dict(value), path, module)
            case list() | tuple() | set() | frozenset() | deque():
                content = self._collection(list(value), path, module)
            case str() | bytes() | int() | float():
                content = repr(value)
            case _ if (array := array_text(value)) is not None:
                content = array
            case BaseException():
                content = self.write(value.args, path, module)
        return f"{self.name_of(kind)}{content}{self._items(sorted(state.items()), path, module)}"

    def _other(self, value: Any, path: str, module: str) -> str:
        match value:
            case type():
                return self.name_of(value)
            case ModuleType():
                return f"module {self.name_of(value)}"
            case FunctionType():
                return self._function(value, path, module)
            case staticmethod() | classmethod():
                return f"{type(value).__name__}({self.write(value.__func__, path, module)})"
            case property():
                parts = (value.fget, value.fset, value.fdel)
                return f"property({', '.join(self.write(part, path, module) for part in parts)})"
            case functools.cached_property():
                return f"cached_property({self.write(value.func, path, module)})"
            case functools.partial():
                inside = (value.func, value.args, value.keywords, vars(value))
                return f"partial({', '.join(self.write(part, path, module) for part in inside)})"
            case BuiltinFunctionType() | MethodWrapperType() | MethodType() if _is_shared_random(value):
                return f"{value.__name__} of the shared random numbers"
            case MethodType():
                owner = self.write(value.__self__, f"{path}.__self__", module)
                return f"{self.write(value.__func__, path, module)} of {owner}"
            case logging.Logger():
                return f"logger {value.name!r}"
            case _ if isinstance(value, _LOCKS):
                return type(value).__name__
            case _ if any(value is getattr(sys, name, None) for name in _STREAMS):
                return "a standard stream"
            case _ if (wrapped := getattr(value, "__wrapped__", None)) is not None and callable(value):
                return f"{self.name_of(type(value))} of {self.write(wrapped, path, module)}"
            case _ if (text := array_text(value)) is not None:
                return text
            case _:
                _refuse_what_changes(value, path)
                return self._reduced(value, path, module)

    def _function(self, function: FunctionType, path: str, module: str) -> str:
        """Write a function. One of an installed package is known by name, and by what it wraps."""
        if self._code.is_users(function.__globals__.get("__name__")):
            return self._code.named(function)
        code = function.__code__
        name = f"{function.__globals__.get('__name__')}.{code.co_qualname}"
        held = []
        if (wrapped := getattr(function, "__wrapped__", None)) is not None:
            held.append(self.write(wrapped, path, module))
        if isinstance(registry := getattr(function, "registry", None), MappingProxyType):  # of singledispatch
            held += sorted(self.write(pair, path, module) for pair in registry.items())
        for variable, content in enclosed(function).items():
            if content is wrapped:
                continue
            if isinstance(content, FunctionType | type | MethodType | functools.partial):
                held.append(self.write(content, path, module))
            elif is_constant(content) and not stores(code, variable):
                held.append(f"{variable}={self.write(content, path, module)}")
        return f"{name}({', '.join(held)})" if held else name

    def name_of(self, value: type | ModuleType) -> str:
        """Return the name of a class or module, having read those of the user."""
        if isinstance(value, ModuleType):
            return self._code.named(value) if self._code.is_users(value.__name__) else value.__name__
        if self._code.is_users(value.__module__) or is_made(value):
            return self._code.named(value)
        return (
            value.__qualname__
            if value.__module__ == "builtins"
            else f"{value.__module__}.{value.__qualname__}"
        )

    def _reduced(self, value: Any, path: str, module: str) -> str:
        """Write an object as pickling would take it apart."""
        name = self.name_of(type(value))
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            reduced: Any = reduce(value) if reduce is not None else value.__reduce_ex__(4)
        except Exception as error:
            raise Unidentified(path, value, f"it cannot be pickled ({error})") from error
        if isinstance(reduced, str):
            return f"{getattr(value, '__module__', None) or name}.{reduced}"
        made, arguments, state, listed, keyed = [*reduced, None, None, None][:5]
        parts = [self.write(made, path, module), self.write(arguments, path, module)]
        if isinstance(state, dict):
            parts.append(self._items(sorted(state.items(), key=lambda pair: str(pair[0])), path, module))
        elif state is not None:
            parts.append(self.write(state, path, module))
        parts += [self.write(list(items), path, module) for items in (listed, keyed) if items is not None]
        return f"{name}<{', '.join(parts)}>"


def _refuse_what_changes(value: Any, path: str) -> None:
    """Raise for what changes by being used."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    generators: list[type] = [random.Random]
    if numpy is not None and hasattr(numpy, "random"):
        generators += [numpy.random.Generator, numpy.random.RandomState, numpy.random.BitGenerator]
    if torch is not None and hasattr(torch, "Generator"):
        generators.append(torch.Generator)
    if isinstance(value, tuple(generators)):
        raise Unidentified(path, value, "a random generator changes when numbers are drawn from it")
    if hasattr(type(value), "__next__"):
        raise Unidentified(path, value, "an iterator or file changes when something is read from it")


def _is_shared_random(value: Any) -> bool:
    modules = (sys.modules.get(name) for name in _SHARED_RANDOM)
    return any(getattr(module, value.__name__, None) == value for module in modules if module is not None)


def _plain(value: object, module: str) -> str | None:
    """Write a plain value; None where it is anything else."""
    kind = type(value)
    if value is None or value is Ellipsis or kind in (bool, int, float, bytes, complex):
        return repr(value)
    if kind is str:
        return repr(_portable(str(value), module))
    if isinstance(value, PurePath):
        return f"Path({_portable(str(value), module)!r})"
    return None


def _portable(text: str, module: str) -> str:
    """Write a path near the module's file relative to it, so that moving both changes nothing."""
    if not os.path.isabs(text):
        return text
    file = getattr(sys.modules.get(module), "__file__", None)
    if not file:
        return text
    folder = os.path.dirname(os.path.abspath(file))
    shared = os.path.commonpath([folder, text])
    return text if shared == os.path.dirname(shared) else os.path.relpath(text, folder)
