"""Functions, classes and names as they are in this process, taken apart."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from hippotune.identity.uses import Import


def functions_in(values: Iterable[object]) -> Iterator[FunctionType]:
    """Yield the functions among the members of a class."""
    for value in values:
        match value:
            case property():
                yield from functions_in((value.fget, value.fset, value.fdel))
            case staticmethod() | classmethod():
                yield from functions_in((value.__func__,))
            case functools.cached_property():
                yield from functions_in((value.func,))
            case FunctionType():
                yield value


def resolved(value: object, attributes: Iterable[str]) -> object:
    """Follow attributes through modules; None where they lead through anything else."""
    for attribute in attributes:
        if not isinstance(value, ModuleType):
            return None
        value = getattr(value, attribute, None)
    return value


def module_of(value: object) -> str:
    """Return the name of a module, or of the one that defines something."""
    match value:
        case ModuleType():
            name: object = value.__name__
        case FunctionType():
            name = value.__globals__.get("__name__")
        case type() | BuiltinFunctionType():
            name = value.__module__
        case _:
            name = type(value).__module__
    return name if isinstance(name, str) else ""


def arguments() -> str:
    """Write the arguments of the program; of its own name, what does not depend on where it lies."""
    return repr([os.path.basename(sys.argv[0]) if sys.argv else "", *sys.argv[1:]])


def defaults(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the arguments of a function that have a default, with it."""
    given = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    yield from zip(names[len(names) - len(given) :], given, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def enclosed(function: FunctionType) -> dict[str, Any]:
    """Return the variables of enclosing functions that a function uses; those not yet set are left out."""
    variables = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:
            continue
    return variables


@dataclass(frozen=True)
class Brought:
    """What an import statement inside a function brings in, and which module's name that is."""

    alias: str
    value: Any
    module: str
    name: str | None = None


def imported(
    imports: Iterable[Import], module: str, is_users: Callable[[object], bool]
) -> tuple[list[Brought], set[str]]:
    """Return what import statements inside a function bring in, and the packages that it comes from.

    Only the user's own modules and Python's are loaded for it: what is found depends on nothing else.
    """
    found: list[Brought] = []
    packages: set[str] = set()
    for each in imports:
        name = "." * each.level + each.module
        with suppress(Exception):  # training fails on it too, or does without
            origin = importlib.util.resolve_name(name, _package_of(module)) if each.level else name
            package = origin.partition(".")[0]
            packages.add(package)
            if not is_users(origin) and package not in sys.stdlib_module_names:
                continue  # the code says the name; whether it is loaded by now differs
            if origin not in sys.modules:
                importlib.import_module(origin)
            loaded = sys.modules.get(each.bound or origin)
            if loaded is None:
                continue
            if each.attribute is None:
                found.append(Brought(each.alias, loaded, loaded.__name__))
                continue
            if not hasattr(loaded, each.attribute):
                importlib.import_module(f"{origin}.{each.attribute}")
            found.append(Brought(each.alias, getattr(loaded, each.attribute), origin, each.attribute))
    return found, packages


def _package_of(module: str) -> str:
    loaded = sys.modules.get(module)
    return getattr(loaded, "__package__", None) or module.rpartition(".")[0]


def slot_names(cls: type) -> list[str]:
    """Return the attributes that objects of a class have in slots, by their real names."""
    names = []
    for base in cls.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                is_private = name.startswith("__") and not is_dunder(name)
                names.append(f"_{base.__name__.lstrip('_')}{name}" if is_private else name)
    return names


_FINDERS = (
    ("pydoc", "locate"),
    ("pkgutil", "resolve_name"),
    ("runpy", "run_path"),
    ("runpy", "run_module"),
    ("importlib.util", "spec_from_file_location"),
)


def finders() -> list[object]:
    """Return the functions that find code by a text."""
    return [getattr(sys.modules[module], name, None) for module, name in _FINDERS if module in sys.modules]


def field_defaults(cls: Any) -> Iterator[tuple[str, object]]:
    """Yield the defaults of the fields of a dataclass or pydantic model, and what makes them, by name."""
    fields = {**vars(cls).get("__dataclass_fields__", {}), **vars(cls).get("__pydantic_fields__", {})}
    for name, field in fields.items():
        for kind in ("default", "default_factory"):
            value = getattr(field, kind, None)
            missing = value is None or type(value).__name__ in ("_MISSING_TYPE", "PydanticUndefinedType")
            if not missing:
                yield f"{name} ({kind})", value


def is_made(cls: type) -> bool:
    """Whether a dataclass was made by a call, which leaves it in no module."""
    module = sys.modules.get(cls.__module__)
    return "__dataclass_fields__" in vars(cls) and getattr(module, cls.__name__, None) is None


_PYTHONS_OWN = frozenset(
    f"__{name}__"
    for name in [
        "name",
        "file",
        "doc",
        "builtins",
        "spec",
        "loader",
        "package",
        "path",
        "cached",
        "class",
        "annotations",
        "debug",
        "dict",
    ]
)


def is_pythons(name: str) -> bool:
    """Whether a global is one that Python gives every module."""
    return name in _PYTHONS_OWN


def is_constant(value: object) -> bool:
    """Whether a value is plain and cannot change; paths of installed files are none."""
    if isinstance(value, tuple | frozenset):
        return all(map(is_constant, value))
    return type(value) in (bool, int, float, complex) or (type(value) is str and not os.path.isabs(value))


def is_dunder(name: str) -> bool:
    """Whether a name is one of Python's own."""
    return name.startswith("__") and name.endswith("__")


def is_inner(name: str, function: bool, is_enum: bool) -> bool:
    """Whether a member of a class is Python's own book-keeping."""
    if is_enum and name.startswith("_") and not function:
        return True
    return name.startswith("_abc_") or (is_dunder(name) and not function)
