"""Reads code and everything that it reads by name, to any depth; see `hippotune.identity.fingerprint`."""

from __future__ import annotations

import argparse
import enum
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from types import (
    FunctionType,
    MemberDescriptorType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, TypeGuard

from hippotune.errors import TrainerError
from hippotune.identity.bytecode import (
    Chain,
    attributes_read,
    code_text,
    modules_imported,
    names_read,
    strings_in,
)
from hippotune.identity.effects import ModuleEffects, module_effects
from hippotune.identity.members import (
    Brought,
    arguments,
    defaults,
    enclosed,
    field_defaults,
    finders,
    functions_in,
    imported,
    is_dunder,
    is_inner,
    is_made,
    is_pythons,
    module_of,
    resolved,
)
from hippotune.identity.ownership import is_script, is_users
from hippotune.identity.parts import Record, effect_name, link, of_source, of_value
from hippotune.identity.place import REMEDY, Place, hidden, unnamed
from hippotune.identity.source import Definition, Source, canonical
from hippotune.identity.surroundings import variable
from hippotune.identity.uses import Import, Use
from hippotune.identity.values import Unidentified, Writer

_PARSERS = {"parse_args", "parse_known_args", "parse_intermixed_args"}
_LOOKUPS = {"globals", "eval", "exec", "__import__"}
_WRITES_ENVIRONMENT = {"update", "clear"}


class Reading:
    """One pass over everything that some code reads; `home` is the module that needs no name.

    With effects, what the modules do at their top is read too.

    Attributes
    ----------
    record : Record
        What was found.
    packages : set[str]
        The installed packages that the code uses by itself.
    modules : dict[str, ModuleEffects]
        The modules of the user's that the code is in, and those that they import.
    """

    def __init__(self, home: str, with_effects: bool = True) -> None:
        self.home = home
        self._with_effects = with_effects
        self._source = Source()
        self.writer = Writer(self)
        self._labels: dict[int, tuple[object, str]] = {}
        self._taken: set[str] = set()
        self.record = Record()
        self._values: dict[str, object] = {}
        self.packages: set[str] = set()
        self.modules: dict[str, ModuleEffects] = {}
        self._is_read = True

    def is_users(self, module: object) -> bool:
        """Whether a module is the user's own."""
        return is_users(module, self.home)

    def named(self, value: FunctionType | type | ModuleType) -> str:
        """Return the name of something of the user's own; at the first time, read it."""
        self.enter(module_of(value))
        known = self._labels.get(id(value))
        if known is not None:
            return known[1]
        before = len(self._labels), len(self._values)
        label = self._label(value)
        self._labels[id(value)] = (value, label)
        try:
            match value:
                case type():
                    self._read_class(value, label)
                case FunctionType():
                    self._read_function(value, label)
                case ModuleType():
                    self._read_module(value, label)
        except Exception:  # who reads it next, or what has read it meanwhile, has to hear that too
            self._take_back(*before)
            raise
        return label

    def _take_back(self, labels: int, values: int) -> None:
        """Forget what was read after these counts: some of it was read in part."""
        while len(self._labels) > labels:
            _, (_, label) = self._labels.popitem()
            self._taken.discard(label)
        while len(self._values) > values:
            self._values.popitem()

    def read(self, name: str, value: object) -> None:
        """Read a value, or something of the user's own."""
        self._add_value(name, value, self.home, name)

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
        if module == self.home:
            return ""
        return "__main__" if is_script(module) else str(module)

    def _add_source(self, name: str, text: str, compiled: bool = False) -> None:
        self.record.add("definition", name, text, of_source(text, compiled))

    def _add_value(self, name: str, value: object, module: str, reader: str) -> None:
        if self._values.get(name, self) is value:
            return
        self._values[name] = value
        try:
            text = self.writer.write(value, name, module)
        except TrainerError:
            self._values.pop(name, None)
            raise
        except Unidentified as error:
            self._values.pop(name, None)
            what = name if error.path == name else f"{name} (at {error.path})"
            kind = type(error.value)
            raise TrainerError(
                f"{reader} reads {what}, of type {kind.__module__}.{kind.__qualname__}, which cannot be "
                f"identified: {error.why}. Hippo could not tell whether results still belong to it: {REMEDY}"
            ) from None
        self.add_text(name, text)

    def add_text(self, name: str, text: str) -> None:
        """Add a value that is written already."""
        self.record.add("value", name, text, of_value(name, text))

    def _add_link(self, name: str, value: FunctionType | type) -> None:
        """Add what a name of the user's leads to; a person sees it where that has another name."""
        label = self.named(value)
        self.record.add("link", link(name), label, None if label == name else label)

    def _read_class(self, cls: type, label: str) -> None:
        members = vars(cls)
        functions = [f for f in functions_in(members.values()) if f.__module__ == cls.__module__]
        definition = self._source.of_class(cls, functions)
        if definition is not None:
            self._add_source(label, definition.text)
        bases = [self.writer.name_of(base) for base in cls.__mro__[1:]]
        self.record.add("bases", label, ", ".join([*bases, self.writer.name_of(type(cls))]))
        for name, default in field_defaults(cls):
            self._add_value(f"{label}.{name}", default, cls.__module__, label)
        generated = "__dataclass_fields__" in members
        given = definition.assigned if definition is not None else frozenset()
        if definition is not None:
            self._read_arguments(definition, label, cls.__module__)
        for name, value in members.items():
            function = isinstance(value, FunctionType | staticmethod | classmethod | property)
            if name not in given and is_inner(name, function, issubclass(cls, enum.Enum)):
                continue
            if isinstance(value, MemberDescriptorType) or type(value).__name__ == "_tuplegetter":
                continue
            plain = inspect.unwrap(value) if isinstance(value, FunctionType) else value
            if generated and isinstance(plain, FunctionType) and plain.__code__.co_filename == "<string>":
                continue
            self._read_member(cls, label, name, value, function)

    def _read_member(self, cls: type, label: str, name: str, value: object, function: bool) -> None:
        if isinstance(value, enum.Enum) and isinstance(value, cls):
            self._add_value(f"{label}.{name}", value.value, cls.__module__, label)
        elif self._is_code_of_users(value):
            self._add_link(f"{label}.{name}", value)
        else:
            shown = f"{label}.{name} (decorated)" if function else f"{label}.{name}"
            self._add_value(shown, value, cls.__module__, label)

    def _is_code_of_users(self, value: object) -> TypeGuard[FunctionType | type]:
        if isinstance(value, FunctionType):
            return self.is_users(value.__globals__.get("__name__"))
        return isinstance(value, type) and (self.is_users(value.__module__) or is_made(value))

    def _read_function(self, function: FunctionType, label: str) -> None:
        module = function.__globals__.get("__name__", function.__module__)
        found = self._source.of_function(function)
        code = function.__code__
        text = "".join(each.text for each in found)
        if len(found) != 1:  # no source, or several lambdas on one line
            text += code_text(code)
        self._add_source(label, text, compiled=not found)
        names: dict[str, Any] = dict(function.__globals__)
        names |= enclosed(function)
        for name, value in defaults(function):
            self._add_value(f"{label}({name}=)", value, module, label)
        for name, value in vars(function).items():
            if not is_dunder(name):
                self._add_value(f"{label}.{name}", value, module, label)
        for each in found:
            self._read_arguments(each, label, module)
        imports = [statement for each in found for statement in each.uses.imports]
        place = Place(label, code, names, module, self._brought(imports, module))
        for chain in names_read(code):
            self._read_name(chain, place)
        if _PARSERS & attributes_read(code):
            self.add_text("sys.argv", arguments())
        for each in found:
            for use in each.uses.around:
                self._read_use(use, place)
        if not found:
            self._read_blindly(place)

    def _read_arguments(self, definition: Definition, label: str, module: str) -> None:
        """Read what the decorators of a definition are given, which a library may keep out of sight."""
        around = vars(sys.modules[module]) if module in sys.modules else {}
        place = Place(label, definition.arguments, around, module)
        for chain in names_read(place.code):
            with suppress(TrainerError):  # as for instance a logger or an application
                self._read_name(chain, place)

    def _brought(self, imports: Iterable[Import], module: str) -> list[Brought]:
        brought, packages = imported(imports, module, self.is_users)
        self.packages |= {name for name in packages if not self.is_users(name)}
        for each in brought:
            self.enter(each.module)
        return brought

    def _read_module(self, module: ModuleType, label: str) -> None:
        """Read a module of the user's that is handed on as a whole."""
        tree = self._source.module_tree(module)
        if tree is not None:
            self._add_source(f"module {label}", canonical(tree))
        for name, value in list(vars(module).items()):
            inner = isinstance(value, ModuleType) and value.__name__.startswith(f"{module.__name__}.")
            if not is_pythons(name) and (inner or not isinstance(value, ModuleType)):
                self._add_value(self._in_module(module.__name__, name), value, module.__name__, label)

    def enter(self, name: str, is_read: bool | None = None) -> None:
        """Take in what a module of the user's does when it is imported, and those that it imports.

        It `is_read` where training reads anything in it: what its code names there is read by training too.
        """
        is_read = self._is_read if is_read is None else is_read
        if (known := self.modules.get(name)) is not None:
            if is_read and not known.is_read:
                self.modules[name] = replace(known, is_read=True)
            return
        if not self._with_effects:
            return
        entered = module_effects(name, self._source, self.is_users, is_read, is_script(name))
        if entered is None:
            return
        self.modules[name] = entered
        found = entered.effects
        label = self._module_name(name)
        if found:
            self.record.add("effects", label, "".join(each.text for each in found))
        was_read, self._is_read = self._is_read, is_read
        for effect in found:
            shown = effect_name(label, effect.shown)
            self.record.add("effect", shown, effect.text, of_source(effect.text))
            place = Place(shown, effect.code, vars(sys.modules[name]), name)
            for chain in () if is_script(name) else names_read(effect.code):  # it is not at its end yet
                with suppress(TrainerError):  # what training does not read itself need not be known
                    self._read_name(chain, place)
        self._is_read = was_read
        for each in entered.imports:
            self.enter(each, is_read=False)

    def _read_name(self, chain: Chain, place: Place) -> None:
        name, *attributes = chain
        if name not in place.names or is_pythons(name):
            if name in _LOOKUPS and name not in place.names:
                raise hidden(place, f"{name}()")
            return  # a builtin, or a name that means the same everywhere
        enclosed = name in place.code.co_freevars
        shown = f"{place.label}[{name}]" if enclosed else self._in_module(place.module, name)
        self._read_attributes(place.names[name], shown, place.module, attributes, place)

    def _read_attributes(
        self, value: Any, shown: str, module: str, attributes: list[str], place: Place
    ) -> None:
        """Read a value that was found in a module, or what attributes of it are read."""
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
        self.enter(module)
        if (origin := module_of(value)) and not self.is_users(origin):
            self.packages.add(origin.partition(".")[0])
        if value is sys.argv or (value is sys and attributes[:1] == ["argv"]):
            self.add_text("sys.argv", arguments())
        elif value is sys.modules or (value is sys and attributes[:1] == ["modules"]):
            raise hidden(place, "sys.modules")
        elif not (value is os.environ or self._is_theirs(value)):
            self._read_value(shown, value, module, place)

    def _is_theirs(self, value: object) -> bool:
        """Whether something is a module of an installed package, which needs no reading."""
        return isinstance(value, ModuleType) and not self.is_users(value.__name__)

    def _read_value(self, shown: str, value: object, module: str, place: Place) -> None:
        if self._is_code_of_users(value):
            self._add_link(shown, value)
        else:
            self._add_value(shown, value, module, place.label)

    def _read_use(self, use: Use, place: Place) -> None:
        """Read names that the function imports itself, and the environment."""
        name, *attributes = use.chain
        for each in place.brought:
            if each.alias == name:
                shown = self._in_module(each.module, each.name) if each.name else each.module
                method = [use.method] if use.method else []
                self._read_attributes(each.value, shown, each.module, [*attributes, *method], place)
        for meaning in place.meanings(name):
            value = resolved(meaning, attributes)
            asked = getattr(value, use.method, None) if use.method else value
            if asked is os.getenv:
                if use.called:
                    self._read_variable(use.key, place)
            elif asked is importlib.import_module:
                self._read_import(use, place)
            elif asked is os.path.expandvars and use.called:
                self._read_variables_in(use.key, place)
            elif any(asked is each for each in finders()):
                raise hidden(place, ".".join(filter(None, (*use.chain, use.method))))
            elif value is os.environ and use.method not in _WRITES_ENVIRONMENT:
                self._read_variable(use.key, place)

    def _read_import(self, use: Use, place: Place) -> None:
        """Read a module that is imported by a text."""
        for name in place.texts_of(use.key):
            if not use.called or not isinstance(name, str) or name.startswith("."):
                raise hidden(place, "importlib.import_module")
            self._read_modules([name], place)

    def _read_modules(self, names: Iterable[str], place: Place) -> None:
        for each in self._brought([Import(name, name) for name in names], place.module):
            if not self._is_theirs(each.value):
                self._read_value(f"module {each.alias}", each.value, place.module, place)

    def _read_variable(self, key: object, place: Place) -> None:
        for name in place.texts_of(key):
            if not isinstance(name, str):
                raise unnamed(place)
            if (text := variable(name)) is not None:
                self.add_text(f"${name}", text)

    def _read_variables_in(self, key: object, place: Place) -> None:
        """Read the variables that a text has in it, as $NAME or ${NAME}."""
        for text in place.texts_of(key):
            names = re.findall(r"\$\{?(\w+)", text) if isinstance(text, str) else [None]
            for name in names:
                self._read_variable(name, place)

    def _read_blindly(self, place: Place) -> None:
        """Without source: any text in code that reads the environment may be a variable's name."""
        values = [
            resolved(place.names.get(name), attributes[:1]) for name, *attributes in names_read(place.code)
        ]
        if importlib.import_module in values:
            raise hidden(place, "importlib.import_module")
        if any(value is os.environ or value is os.getenv for value in values):
            for name in sorted(strings_in(place.code)):
                if name.isidentifier() and (text := variable(name)) is not None:
                    self.add_text(f"${name}", text)
        self._read_modules(sorted(modules_imported(place.code) - {""}), place)
