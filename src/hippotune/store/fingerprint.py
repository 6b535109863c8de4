"""A fingerprint of training code: another one where the code could train differently, the same otherwise.

It covers the trainer's class, its bases, and what their code refers to by name, to any depth, as long as it
is the user's own: functions and classes by their syntax trees, plain values by value, other objects by the
statements that make them. A search space, tuner or study in the same file is not referred to, so editing it
changes nothing; nor do comments, docstrings and layout.

It is the same in every process, on every machine and for every supported Python: no paths, ids, line numbers
or set orders go into it. Where there is no source (some consoles), compiled code stands in for it, and the
fingerprint holds for one version of Python.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any

from hippotune.store.source import Source, canonical, compiled, global_names, imports_in


def fingerprint(trainer: type) -> str:
    """Return the fingerprint of a trainer's code, 32 hexadecimal digits."""
    return _Reading(trainer).digest()


@dataclass(frozen=True)
class _Scope:
    """Where a name is looked up: a module's globals, and around them the variables of enclosing functions."""

    module: str
    names: Mapping[str, Any]

    @classmethod
    def of(cls, functions: Iterable[FunctionType], module: str) -> _Scope:
        names: dict[str, Any] = dict(vars(sys.modules[module])) if module in sys.modules else {}
        for function in functions:
            names |= function.__globals__ | _enclosed(function)
        return cls(module, names)


class _Reading:
    """One pass over everything that a trainer's code refers to."""

    def __init__(self, trainer: type) -> None:
        self._home = trainer.__module__
        self._source = Source()
        self._met: dict[int, object] = {}
        self._parts: set[str] = set()
        self._add_class(trainer)

    def digest(self) -> str:
        whole = "\0".join(sorted(self._parts))
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def _note(self, module: str, name: str, text: str) -> None:
        """Note one part. The trainer's own module goes unnamed, for a script may be ``__main__``."""
        self._parts.add(f"{'' if module == self._home else module}:{name}={text}")

    def _is_new(self, value: object) -> bool:
        if id(value) in self._met:
            return False
        self._met[id(value)] = value
        return True

    # What is read.

    def _add_class(self, cls: type) -> None:
        if not self._is_new(cls):
            return
        functions = [f for f in _functions_in(vars(cls).values()) if f.__module__ == cls.__module__]
        scope = _Scope.of(functions, cls.__module__)
        node = self._source.class_node(cls, functions)
        if node is not None:
            self._add_nodes([node], cls.__qualname__, scope)
        else:
            for function in functions:
                self._add_function(function)
            for name, value in vars(cls).items():
                if not _is_dunder(name) and (text := _plain(value, cls.__module__)) is not None:
                    self._note(cls.__module__, f"{cls.__qualname__}.{name}", text)
        for base in cls.__mro__[1:]:
            if self._is_users(base.__module__):
                self._add_class(base)

    def _add_function(self, function: FunctionType) -> None:
        if not self._is_new(function):
            return
        scope = _Scope.of([function], function.__module__)
        if nodes := self._source.function_nodes(function):
            self._add_nodes(nodes, function.__qualname__, scope)
            return
        defaults = _plain((function.__defaults__, function.__kwdefaults__), scope.module)
        self._note(scope.module, function.__qualname__, f"{_code(function.__code__, scope.module)}{defaults}")
        self._add_references(function.__code__, scope)

    def _add_nodes(self, nodes: Iterable[Any], name: str, scope: _Scope) -> None:
        for node in nodes:
            self._note(scope.module, name, canonical(node))
            self._add_references(compiled(node), scope)
            for module, attribute in imports_in(node, _package_of(scope.module)):
                self._add_import(module, attribute)

    # What it refers to.

    def _add_references(self, code: CodeType, scope: _Scope) -> None:
        for name, *attributes in global_names(code):
            if name not in scope.names or _is_dunder(name):
                continue  # a builtin, or a name that means the same everywhere
            value, where = scope.names[name], scope
            while isinstance(value, ModuleType) and attributes and self._is_users(value.__name__):
                if not hasattr(value, attributes[0]):
                    break
                name, where = attributes.pop(0), _Scope(value.__name__, vars(value))
                value = getattr(value, name)
            self._add_value(name, value, where)

    def _add_import(self, module: str, attribute: str | None) -> None:
        """Follow an import inside a function. Only the user's own modules are imported for it."""
        if not self._is_users(module):
            return
        try:
            value: object = importlib.import_module(module)
            if attribute is not None and not hasattr(value, attribute):
                value, attribute = importlib.import_module(f"{module}.{attribute}"), None
        except ImportError:
            return  # training fails on it too, or does without
        scope = _Scope(module, vars(value))
        self._add_value(attribute or "", value if attribute is None else getattr(value, attribute), scope)

    def _add_value(self, name: str, value: object, scope: _Scope) -> None:
        value = _unwrapped(value)
        match value:
            case type():
                if self._is_users(value.__module__):
                    self._add_class(value)
            case FunctionType():
                if self._is_users(value.__module__):
                    self._add_function(value)
            case ModuleType():
                if self._is_users(value.__name__) and self._is_new(value):
                    tree = self._source.module_tree(value)
                    self._add_nodes([tree] if tree else [], "", _Scope(value.__name__, vars(value)))
            case _ if (text := _plain(value, scope.module)) is not None:
                self._note(scope.module, name, text)
            case _ if self._is_users(scope.module) and self._is_new(value):
                self._add_nodes(self._source.statements_binding(name, scope.module), name, scope)
                self._add_value(type(value).__qualname__, type(value), scope)

    def _is_users(self, module: str) -> bool:
        """Tell the user's code, or code installed along with the trainer, from everybody else's."""
        top = module.partition(".")[0]
        if top == "hippotune":
            return False
        if top in ("__main__", self._home.partition(".")[0]):
            return True
        return not _is_installed(top)


@functools.cache
def _is_installed(top: str) -> bool:
    """Whether a top-level module is built in, of the standard library or of an installed package."""
    if top in sys.stdlib_module_names:
        return True
    loaded = sys.modules.get(top)
    try:
        spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):
        spec = None
    folders = [getattr(loaded, "__file__", None), *(getattr(loaded, "__path__", ()))]
    if spec is not None:
        folders += [spec.origin if spec.has_location else None, *(spec.submodule_search_locations or ())]
    places = [os.path.realpath(folder) for folder in folders if folder]
    return not places or any(_is_below_installed(place) for place in places)


def _is_below_installed(place: str) -> bool:
    parts = PurePath(place).parts
    stdlib = os.path.realpath(sysconfig.get_path("stdlib"))
    return "site-packages" in parts or "dist-packages" in parts or place.startswith(stdlib + os.sep)


def _functions_in(values: Iterable[object]) -> Iterator[FunctionType]:
    for value in values:
        match value:
            case property():
                yield from _functions_in((value.fget, value.fset, value.fdel))
            case staticmethod() | classmethod():
                yield from _functions_in((value.__func__,))
            case functools.cached_property():
                yield from _functions_in((value.func,))
            case _ if isinstance(function := _unwrapped(value), FunctionType):
                yield function


def _unwrapped(value: object) -> object:
    """Return what a decorator has wrapped; `functools.wraps` and its like leave a trace of it."""
    try:
        return inspect.unwrap(value) if callable(value) else value
    except Exception:  # an object that answers to every name, or to none without raising
        return value


def _enclosed(function: FunctionType) -> dict[str, Any]:
    """Return the variables of enclosing functions that a function uses; those not yet set are left out."""
    variables = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:
            continue
    return variables


def _package_of(module: str) -> str:
    loaded = sys.modules.get(module)
    return getattr(loaded, "__package__", None) or module.rpartition(".")[0]


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _plain(value: object, module: str) -> str | None:
    """Write a plain value, or a container of such; None where it is anything else."""
    match value:
        case None | bool() | bytes() | complex():
            return repr(value)
        case int():
            return int.__repr__(value)
        case float():
            return float.__repr__(value)
        case str() | PurePath():
            return str.__repr__(_portable(str(value), module))
        case tuple() | list() | set() | frozenset():
            items = [_plain(item, module) for item in value]
            if None in items:
                return None
            written = [item for item in items if item is not None]
            ordered = sorted(written) if isinstance(value, set | frozenset) else written
            return f"{type(value).__name__}({','.join(ordered)})"
        case dict():
            return _plain(tuple(value.items()), module)
        case _:
            return None


def _portable(text: str, module: str) -> str:
    """Write a path near the module's file relative to it, so that moving both changes nothing."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if not file or not os.path.isabs(text):
        return text
    folder = os.path.dirname(os.path.abspath(file))
    shared = os.path.commonpath([folder, text])
    return text if shared == os.path.dirname(shared) else os.path.relpath(text, folder)


def _code(code: CodeType, module: str) -> str:
    constants = [
        _code(constant, module) if isinstance(constant, CodeType) else _plain(constant, module)
        for constant in code.co_consts
    ]
    return f"{code.co_code.hex()}{constants}{code.co_names}{code.co_varnames}{code.co_freevars}"
