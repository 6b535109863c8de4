"""A fingerprint of training code: another one where training could come out differently, the same otherwise.

It covers the trainer's class, its bases, and everything that their code reads by name, to any depth, as it is
now: the user's own functions and classes by their syntax trees, default arguments, closures and attributes;
all other values by content; of an `argparse.Namespace` the attributes that are read; arguments of the program
and environment variables where code reads them. What cannot be identified is a
`TrainerError` that names it. A search space, tuner or study in the same file is not read by
training, so editing it changes nothing; nor do comments, docstrings and layout.

It is the same in every process and on every machine: no paths, ids, line numbers or set orders go into it.
Where there is no source (some consoles), compiled code stands in for it; where several lambdas share a line,
it tells which of them is meant.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import importlib
import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, TypeGuard

from hippotune.errors import TrainerError
from hippotune.identity.bytecode import Chain, attributes_read, code_text, names_read, strings_in
from hippotune.identity.members import (
    arguments,
    defaults,
    enclosed,
    functions_in,
    imported,
    is_dunder,
    is_inner,
    resolved,
)
from hippotune.identity.ownership import is_script, is_users
from hippotune.identity.parts import Record, digest, of_source, of_value
from hippotune.identity.source import Source, canonical
from hippotune.identity.surroundings import variable
from hippotune.identity.uses import Use
from hippotune.identity.values import Unidentified, Writer

_PARSERS = {"parse_args", "parse_known_args", "parse_intermixed_args"}
_LOOKUPS = {"globals", "eval", "exec", "__import__"}
_WRITES_ENVIRONMENT = {"update", "clear"}
_REMEDY = "pass it as settings=, make it in prepare() or build(), or give the study a version="


@dataclass(frozen=True)
class Fingerprint:
    """What training code is.

    Attributes
    ----------
    digest : str
        32 hexadecimal digits.
    parts : Mapping[str, str]
        What it consists of: short texts by name.
    imports : frozenset[str]
        The packages that the code imports by itself.
    """

    digest: str
    parts: Mapping[str, str]
    imports: frozenset[str]


@dataclass(frozen=True)
class _Place:
    """A function of the user's, and what names mean in it."""

    label: str
    function: FunctionType
    names: Mapping[str, Any]
    module: str


def fingerprint(trainer: type) -> Fingerprint:
    """Return the fingerprint of a trainer's code, as it is now."""
    return _Reading(trainer).result()


def parts_of_object(value: object) -> dict[str, str]:
    """Return what an object is, by name: its class, the user's own code that this reads, its attributes.

    An attribute that cannot be identified counts as it is pickled, or else by its class.
    """
    return _Reading(type(value)).parts_of(value)


def _pickled(value: object) -> str:
    """Return a text for an object of a library, whose state is its own affair."""
    kind = type(value).__qualname__
    try:
        return f"a {kind} {digest(pickle.dumps(value, protocol=5))[:12]}"
    except Exception:  # it may have a lock, a file or anything else that stays in its process
        return f"a {kind}"


class _Reading:
    """One pass over everything that a trainer's code reads."""

    def __init__(self, trainer: type) -> None:
        self._trainer = trainer
        self._home = trainer.__module__
        self._source = Source()
        self._writer = Writer(self)
        self._labels: dict[int, tuple[object, str]] = {}
        self._taken: set[str] = set()
        self._record = Record()
        self._values: dict[str, object] = {}
        self._imports: set[str] = set()

    def result(self) -> Fingerprint:
        self.named(self._trainer)
        return Fingerprint(self._record.digest, self._record.parts, frozenset(self._imports))

    def parts_of(self, value: object) -> dict[str, str]:
        try:
            self._note_text("class", self._writer.name_of(type(value)))
        except TrainerError:
            self._note_text("class", type(value).__qualname__)
        for name, item in sorted(vars(value).items()):
            try:
                self._note_text(name, self._writer.write(item, name, self._home))
            except (Unidentified, TrainerError):
                self._note_text(name, _pickled(item))
        return self._record.parts

    def is_users(self, module: object) -> bool:
        return is_users(module, self._home)

    def named(self, value: FunctionType | type | ModuleType) -> str:
        """Return the name of something of the user's own; at the first time, read it."""
        known = self._labels.get(id(value))
        if known is not None:
            return known[1]
        label = self._label(value)
        self._labels[id(value)] = (value, label)
        match value:
            case type():
                self._read_class(value, label)
            case FunctionType():
                self._read_function(value, label)
            case ModuleType():
                self._read_module(value, label)
        return label

    def _label(self, value: Any) -> str:
        """Return a name of something of the user's own that nothing else has."""
        if isinstance(value, ModuleType):
            return self._module_name(value.__name__)
        if isinstance(value, FunctionType):  # by its code: a decorator may have given it another's name
            name = self._in_module(value.__globals__.get("__name__"), value.__code__.co_qualname)
        else:
            name = self._in_module(value.__module__, value.__qualname__)
        label = name
        number = 1
        while label in self._taken:  # classes and functions that one function has made several times
            number += 1
            label = f"{name}~{number}"
        self._taken.add(label)
        return label

    def _in_module(self, module: str | None, name: str) -> str:
        place = self._module_name(module)
        return f"{place}.{name}" if place else name

    def _module_name(self, module: str | None) -> str:
        """Return the name of a module. The trainer's own has none: a script may be ``__main__`` or not."""
        if module == self._home:
            return ""
        return "__main__" if is_script(module) else str(module)

    def _note_source(self, name: str, text: str, compiled: bool = False) -> None:
        self._record.add("definition", name, text, of_source(text, compiled))

    def _note_value(self, name: str, value: object, module: str, reader: str) -> None:
        if self._values.get(name, self) is value:
            return
        self._values[name] = value
        try:
            text = self._writer.write(value, name, module)
        except Unidentified as error:
            what = name if error.path == name else f"{name} (at {error.path})"
            kind = type(error.value)
            raise TrainerError(
                f"{reader} reads {what}, of type {kind.__module__}.{kind.__qualname__}, which cannot be "
                f"identified: {error.why}. Hippo could not tell whether results still belong to it: {_REMEDY}"
            ) from None
        self._note_text(name, text)

    def _note_text(self, name: str, text: str) -> None:
        self._record.add("value", name, text, of_value(name, text))

    def _note_link(self, name: str, value: FunctionType | type) -> None:
        """Note what a name of the user's leads to; a person sees it where that has another name."""
        label = self.named(value)
        self._record.add("link", f"{name} (is)", label, None if label == name else label)

    # The user's own code.

    def _read_class(self, cls: type, label: str) -> None:
        members = vars(cls)
        functions = [f for f in functions_in(members.values()) if f.__module__ == cls.__module__]
        definition = self._source.of_class(cls, functions)
        if definition is not None:
            self._note_source(label, definition.text)
        bases = [self._writer.name_of(base) for base in cls.__mro__[1:]]
        self._record.add("bases", label, ", ".join(bases))
        generated = "__dataclass_fields__" in members
        if generated:
            self._read_fields(cls, label)
        for name, value in members.items():
            function = isinstance(value, FunctionType | staticmethod | classmethod | property)
            if is_inner(name, function, issubclass(cls, enum.Enum)):
                continue
            if isinstance(value, MemberDescriptorType) or type(value).__name__ == "_tuplegetter":
                continue
            if generated and isinstance(value, FunctionType) and value.__code__.co_filename == "<string>":
                continue
            self._read_member(cls, label, name, value, function)

    def _read_fields(self, cls: Any, label: str) -> None:
        for field in dataclasses.fields(cls):
            if field.default_factory is not dataclasses.MISSING:
                name = f"{label}.{field.name} (default_factory)"
                self._note_value(name, field.default_factory, cls.__module__, label)

    def _read_member(self, cls: type, label: str, name: str, value: object, function: bool) -> None:
        if isinstance(value, enum.Enum) and isinstance(value, cls):
            self._note_value(f"{label}.{name}", value.value, cls.__module__, label)
        elif self._is_code_of_users(value):
            self._note_link(f"{label}.{name}", value)
        else:
            shown = f"{label}.{name} (decorated)" if function else f"{label}.{name}"
            self._note_value(shown, value, cls.__module__, label)

    def _is_code_of_users(self, value: object) -> TypeGuard[FunctionType | type]:
        if isinstance(value, FunctionType):
            return self.is_users(value.__globals__.get("__name__"))
        return isinstance(value, type) and self.is_users(value.__module__)

    def _read_function(self, function: FunctionType, label: str) -> None:
        module = function.__globals__.get("__name__", function.__module__)
        found = self._source.of_function(function)
        code = function.__code__
        text = "".join(each.text for each in found)
        if len(found) != 1:  # no source, or several lambdas on one line
            text += code_text(code)
        self._note_source(label, text, compiled=not found)
        names: dict[str, Any] = dict(function.__globals__)
        names |= enclosed(function)
        for name, value in defaults(function):
            self._note_value(f"{label}({name}=)", value, module, label)
        for name, value in vars(function).items():
            if not is_dunder(name):
                self._note_value(f"{label}.{name}", value, module, label)
        for each in found:
            found_by_import, packages = imported(each.uses.imports, module, self.is_users)
            names |= found_by_import
            self._imports |= packages
        place = _Place(label, function, names, module)
        for chain in names_read(code):
            self._read_name(chain, place)
        if _PARSERS & attributes_read(code):
            self._note_text("sys.argv", arguments())
        for each in found:
            for use in each.uses.around:
                self._read_use(use, place, each.uses.imports)
        if not found:
            self._read_blindly(place)

    def _read_module(self, module: ModuleType, label: str) -> None:
        """Read a module of the user's that is handed on as a whole."""
        tree = self._source.module_tree(module)
        if tree is not None:
            self._note_source(f"module {label}", canonical(tree))
        for name, value in list(vars(module).items()):
            if not is_dunder(name) and not isinstance(value, ModuleType):
                self._note_value(self._in_module(module.__name__, name), value, module.__name__, label)

    # What it reads.

    def _read_name(self, chain: Chain, place: _Place) -> None:
        name, *attributes = chain
        if name not in place.names or is_dunder(name):
            if name in _LOOKUPS and name not in place.names:
                raise _hidden(place, f"{name}()")
            return  # a builtin, or a name that means the same everywhere
        value, module = place.names[name], place.module
        enclosed = name in place.function.__code__.co_freevars
        shown = f"{place.label}[{name}]" if enclosed else self._in_module(module, name)
        while isinstance(value, ModuleType) and attributes and self.is_users(value.__name__):
            if not hasattr(value, attributes[0]):
                break
            name, module = attributes.pop(0), value.__name__
            value, shown = getattr(value, name), self._in_module(module, name)
        while isinstance(value, SimpleNamespace | argparse.Namespace) and attributes:
            if type(value) not in (SimpleNamespace, argparse.Namespace) or attributes[0] not in vars(value):
                break
            shown = f"{shown}.{attributes[0]}"
            value = vars(value)[attributes.pop(0)]
        if value is sys.argv or (value is sys and attributes[:1] == ["argv"]):
            self._note_text("sys.argv", arguments())
        elif value is sys.modules or (value is sys and attributes[:1] == ["modules"]):
            raise _hidden(place, "sys.modules")
        elif not (value is os.environ or self._is_theirs(value)):
            self._read_value(shown, value, module, place)

    def _is_theirs(self, value: object) -> bool:
        """Whether something is a module of an installed package, which needs no reading."""
        return isinstance(value, ModuleType) and not self.is_users(value.__name__)

    def _read_value(self, shown: str, value: object, module: str, place: _Place) -> None:
        if self._is_code_of_users(value):
            self._note_link(shown, value)
        else:
            self._note_value(shown, value, module, place.label)

    def _read_use(self, use: Use, place: _Place, imports: Mapping[str, Any]) -> None:
        """Read names that the function imports itself, and the environment."""
        if use.chain[0] in imports:
            attributes = (*use.chain, use.method) if use.method else use.chain
            self._read_name(attributes, place)
        value = resolved(use.chain, place.names)
        asked = getattr(value, use.method, None) if use.method else value
        if asked is os.getenv:
            if use.called:
                self._read_variable(use.key, place)
        elif asked is importlib.import_module:
            self._read_import(use, place)
        elif value is os.environ and use.method not in _WRITES_ENVIRONMENT:
            self._read_variable(use.key, place)

    def _read_import(self, use: Use, place: _Place) -> None:
        """Read a module that is imported by a text."""
        name = place.names.get(use.key.id) if isinstance(use.key, ast.Name) else use.key
        if not use.called or not isinstance(name, str) or name.startswith("."):
            raise _hidden(place, "importlib.import_module")
        found, packages = imported({name: (name, None, 0)}, place.module, self.is_users)
        self._imports |= packages
        if name in found and not self._is_theirs(found[name]):
            self._read_value(f"module {name}", found[name], place.module, place)

    def _read_variable(self, key: object, place: _Place) -> None:
        name = place.names.get(key.id) if isinstance(key, ast.Name) else key
        if not isinstance(name, str):
            raise TrainerError(
                f"{place.label} reads environment variables whose names are not in the code; which they are "
                'decides about results: read each by its name, as os.environ["NAME"], '
                "pass what is needed as settings=, or give the study a version="
            )
        if (text := variable(name)) is not None:
            self._note_text(f"${name}", text)

    def _read_blindly(self, place: _Place) -> None:
        """Without source: any text in code that reads the environment may be a variable's name."""
        values = [resolved(chain[:2], place.names) for chain in names_read(place.function.__code__)]
        if importlib.import_module in values:
            raise _hidden(place, "importlib.import_module")
        if any(value is os.environ or value is os.getenv for value in values):
            for name in sorted(strings_in(place.function.__code__)):
                if name.isidentifier() and (text := variable(name)) is not None:
                    self._note_text(f"${name}", text)


def _hidden(place: _Place, means: str) -> TrainerError:
    """Say that code looks things up by text, so that it is not known what it reads."""
    return TrainerError(
        f"{place.label} looks things up with {means}: what it finds decides about results, and the code does "
        f"not say what that is. Write the names themselves; or {_REMEDY}"
    )
