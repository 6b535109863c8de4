"""Finds what training code changes outside of its trainer: globals, class attributes, closures, defaults.

Such state is in no checkpoint, and one trial would leave it to the next. It is found in the source: names
that are bound anew, attributes and items that are set, methods that change what they belong to. What belongs
to installed packages (``torch.backends.cudnn.benchmark = True``) is left alone, and so is what only functions
do that training does not call, such as those that fill a registry when a file is imported.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, MutableSet
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from hippotune.errors import TrainerError
from hippotune.identity.bytecode import Chain, attributes_read
from hippotune.identity.source import Source
from hippotune.identity.uses import ITEM, TYPE_OF, Use, Uses

_CONTAINERS = (MutableMapping, MutableSequence, MutableSet, deque)
_LIST_METHODS = {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"}
_DICT_METHODS = {"update", "setdefault", "popitem", "move_to_end", "subtract"}
_SET_METHODS = {"add", "discard", "intersection_update", "difference_update", "symmetric_difference_update"}
_DEQUE_METHODS = {"appendleft", "popleft", "extendleft", "rotate"}
_CONTAINER_METHODS = _LIST_METHODS | _DICT_METHODS | _SET_METHODS | _DEQUE_METHODS
_ARRAY_METHODS = {"fill", "sort", "put", "partition", "resize", "itemset", "setflags"}
_TORCH_METHODS = {"step", "zero_grad", "load_state_dict", "add_param_group", "update", "train"}
_AT_IMPORT = {"__init_subclass__", "__set_name__", "__class_getitem__"}
_CALLED = {"prepare", "build", "setup", "train", "evaluate", "save", "load", "state_dict", "load_state_dict"}


@dataclass(frozen=True)
class Place:
    """A function of the user's, and what names mean in it."""

    label: str
    function: FunctionType
    names: Mapping[str, Any]
    module: str


class Changes:
    """Takes in all functions and classes that training reaches, then `refuse` raises for the first change."""

    def __init__(self, trainer: type, is_users: Callable[[object], bool]) -> None:
        self._trainer = trainer
        self._is_users = is_users
        self._source = Source()
        self._functions: list[tuple[Place, Uses]] = []
        self._classes: dict[tuple[str, str], type] = {}
        self._read: set[str] = set(_CALLED)

    def add_class(self, cls: type) -> None:
        """Take in a class."""
        self._classes[cls.__module__, cls.__qualname__] = cls

    def add_function(self, place: Place, uses: Uses) -> None:
        """Take in a function."""
        self._functions.append((place, uses))
        self._read |= attributes_read(place.function.__code__)

    def refuse(self) -> None:
        """Raise `TrainerError` for something that training changes."""
        for place, uses in self._functions:
            owner = self._owner(place)
            if owner is not None and not self._is_called(owner, place.function.__code__.co_name):
                continue
            for use in uses.around:
                self._check_around(use, place)
            for use in uses.own:
                if owner is not None:
                    self._check_own(use, place, owner)
                else:
                    self._check_default(use, place)
            for use in uses.parameters:
                self._check_default(use, place)

    # Methods.

    def _owner(self, place: Place) -> type | None:
        """Return the class that a function is a method of."""
        outer, _, name = place.function.__code__.co_qualname.rpartition(".")
        cls = self._classes.get((place.module, outer))
        return cls if cls is not None and not isinstance(vars(cls).get(name), staticmethod) else None

    def _is_called(self, owner: type, name: str) -> bool:
        """Whether training may call a method: by name, or through a class of an installed package."""
        if name in _AT_IMPORT:
            return False
        if name in self._read or (name.startswith("__") and name.endswith("__")):
            return True
        return any(name in vars(base) for base in owner.__mro__ if not self._is_users(base.__module__))

    def _check_own(self, use: Use, place: Place, owner: type) -> None:
        chain = use.chain
        name = place.function.__code__.co_name
        through_class = chain[0] == TYPE_OF or isinstance(vars(owner).get(name), classmethod)
        if not through_class and chain[1:2] == ("__class__",):
            chain, through_class = chain[1:], True
        if len(chain) < 2:
            return
        attribute = chain[1]
        shown = f"{owner.__qualname__}.{attribute}"
        held = _class_attribute(owner, attribute, self._is_users)
        if through_class:
            if use.action == "sets" or self._changes_it(_follow(held, chain[2:]), use, chain):
                self._raise(shown, place, _how(use))
        elif _is_container(held) and not self._is_set_on_self(owner, attribute):
            inside = use.action == "sets" and len(chain) > 2
            if inside or self._changes_it(_follow(held, chain[2:]), use, chain):
                self._raise(f"{shown}, an attribute of the class,", place, _how(use))

    def _is_set_on_self(self, owner: type, attribute: str) -> bool:
        """Whether any method gives an object an attribute of its own."""
        related = {base.__qualname__ for base in (*owner.__mro__, *_subclasses(owner))}
        for place, uses in self._functions:
            outer = place.function.__code__.co_qualname.rpartition(".")[0]
            if outer in related:
                for use in uses.own:
                    if use.action == "sets" and use.chain[1:] == (attribute,) and use.chain[0] != TYPE_OF:
                        return True
        return False

    # Defaults.

    def _check_default(self, use: Use, place: Place) -> None:
        function, root = place.function, use.chain[0]
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        defaults = dict(zip(reversed(names), reversed(function.__defaults__ or ()), strict=False))
        defaults |= function.__kwdefaults__ or {}
        held = defaults.get(root)
        inside = use.action == "sets" and len(use.chain) > 1 and held is not None
        if (_is_container(held) or inside) and (
            inside or self._changes_it(_follow(held, use.chain[1:]), use, use.chain)
        ):
            self._raise(f"the default of its argument {root!r}", place, _how(use))

    # Globals and closures.

    def _check_around(self, use: Use, place: Place) -> None:
        chain, names = use.chain, place.names
        if use.action == "reads":
            return
        if use.action == "binds":
            self._raise(_where(chain[0], place), place, "binds it anew")
        value = names.get(chain[0])
        if chain[0] not in names or self._is_borrowed(chain[0], value):
            return
        owners, last = (chain[1:-1], chain[-1]) if use.action == "sets" else (chain[1:], None)
        rest = list(owners)
        while isinstance(value, ModuleType):
            if not self._is_users(value.__name__):
                return
            if not rest:
                break
            value = getattr(value, rest.pop(0), None)
        if self._is_theirs(value):
            return
        if last is not None or self._changes_it(_follow(value, tuple(rest)), use, chain):
            self._raise(_where(".".join(part for part in chain if part != ITEM), place), place, _how(use))

    def _is_borrowed(self, name: str, value: object) -> bool:
        """Whether a name was imported from an installed package."""
        if isinstance(value, ModuleType):
            return False
        return any(
            vars(module).get(name) is value and not self._is_users(found)
            for found, module in list(sys.modules.items())
            if isinstance(module, ModuleType)
        )

    def _is_theirs(self, value: object) -> bool:
        if isinstance(value, logging.Logger):
            return True
        return isinstance(value, type | FunctionType) and not self._is_users(value.__module__)

    def _changes_it(self, value: object, use: Use, chain: Chain) -> bool:
        if use.action != "calls":
            return False
        if value is _UNKNOWN:
            return ITEM in chain and use.method in _CONTAINER_METHODS
        return self._method_changes(value, use.method, set())

    def _method_changes(self, value: Any, method: str, seen: set[tuple[int, str]]) -> bool:
        """Whether a method changes the object that it is called on."""
        if (id(value), method) in seen or isinstance(value, type | FunctionType | ModuleType):
            return False
        seen.add((id(value), method))
        if isinstance(value, _CONTAINERS) and method in _CONTAINER_METHODS:
            return True
        if _changes_in_torch_or_numpy(value, method):
            return True
        names = (method,) if method else ("__call__", "forward")
        functions = (getattr(type(value), name, None) for name in names)
        return any(
            self._changes_self(function, value, seen)
            for function in functions
            if isinstance(function, FunctionType) and self._is_users(function.__globals__.get("__name__"))
        )

    def _changes_self(self, function: FunctionType, value: Any, seen: set[tuple[int, str]]) -> bool:
        for definition in self._source.of_function(function):
            for use in definition.uses.own:
                if use.action == "sets" and len(use.chain) > 1:
                    return True
                if use.action == "calls":
                    target = _follow(value, use.chain[1:])
                    if target is not _UNKNOWN and self._method_changes(target, use.method, seen):
                        return True
        return False

    def _raise(self, what: str, place: Place, how: str) -> None:
        raise TrainerError(
            f"{place.label} changes {what} ({how}): such state is in no checkpoint, and trials would change "
            "each other's results. Keep it on self, made in build(); or give the study a version= and answer "
            "for it"
        )


_UNKNOWN = object()


def _follow(value: object, attributes: tuple[str, ...]) -> object:
    """Return what attributes lead to, without running code of the user's."""
    for attribute in attributes:
        held = getattr(value, "__dict__", None)
        if attribute == ITEM or held is None or attribute not in held:
            return _UNKNOWN
        value = held[attribute]
    return value


def _is_container(value: object) -> bool:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    kinds: tuple[Any, ...] = _CONTAINERS
    if torch is not None and hasattr(torch, "Tensor"):
        kinds += (torch.Tensor,)
    if numpy is not None and hasattr(numpy, "ndarray"):
        kinds += (numpy.ndarray,)
    return isinstance(value, kinds)


def _changes_in_torch_or_numpy(value: Any, method: str) -> bool:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and hasattr(torch, "Tensor"):
        if isinstance(value, torch.Tensor):
            return method.endswith("_") and not method.endswith("__")
        kinds: tuple[type, ...] = (
            torch.nn.Module,
            torch.optim.Optimizer,
            torch.optim.lr_scheduler.LRScheduler,
        )
        if isinstance(value, kinds) and method in _TORCH_METHODS:
            return True
    return (
        numpy is not None
        and hasattr(numpy, "ndarray")
        and (isinstance(value, numpy.ndarray) and method in _ARRAY_METHODS)
    )


def _class_attribute(owner: type, name: str, is_users: Callable[[object], bool]) -> object:
    for base in owner.__mro__:
        if name in vars(base) and is_users(base.__module__):
            return vars(base)[name]
    return _UNKNOWN


def _subclasses(cls: type) -> list[type]:
    direct: list[type] = type.__subclasses__(cls)
    return [*direct, *(below for each in direct for below in _subclasses(each))]


def _where(name: str, place: Place) -> str:
    kind = "variable" if name.partition(".")[0] in place.function.__code__.co_freevars else "global"
    return f"the {kind} {name}"


def _how(use: Use) -> str:
    if use.action == "calls":
        return f"calls {use.method}() on it" if use.method else "calls it"
    return "sets an item of it" if use.chain[-1] == ITEM else "sets it"
