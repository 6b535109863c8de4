"""Which hyper-parameters a trainer reads: an unread one gives the same model in every trial."""
# ruff: noqa: D102 - the methods of dict are known

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from hippotune.errors import NotGiven, TrainerError
from hippotune.short import listed


class TrackedDict(dict[str, Any]):
    """Hyper-parameter values that note in `read` which of them were looked at, in whatever way.

    Going through all of them (iterating, copying, ``**hp``, comparing) looks at all. `read` is a set apart,
    so that it can outlive the values. `complete` says whether these are all values, or those that change.
    """

    def __init__(self, values: Mapping[str, Any], complete: bool = True) -> None:
        super().__init__(values)
        self.read: set[str] = set()
        self._complete = complete

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def __missing__(self, name: str) -> Any:
        known = listed(super().keys()) or "none"
        if self._complete:
            raise NotGiven(f"{name!r} is no hyper-parameter of this trial; these are: {known}")
        raise NotGiven(
            f"{name!r} does not change at this step; hp holds what does: {known}. Ask with: if {name!r} in hp"
        )

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        self.read.add(name)
        return super().pop(name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().setdefault(name, default)

    # dict() and ** take a shortcut past these, unless __iter__ is overridden too.

    def __iter__(self) -> Iterator[str]:
        self._read_all()
        return super().__iter__()

    def keys(self) -> Any:
        self._read_all()
        return super().keys()

    def values(self) -> Any:
        self._read_all()
        return super().values()

    def items(self) -> Any:
        self._read_all()
        return super().items()

    def popitem(self) -> tuple[str, Any]:
        self._read_all()
        return super().popitem()

    def copy(self) -> dict[str, Any]:
        self._read_all()
        return super().copy()

    def __or__(self, other: Any) -> Any:
        self._read_all()
        return super().__or__(other)

    def __ror__(self, other: Any) -> Any:
        self._read_all()
        return super().__ror__(other)

    def __eq__(self, other: object) -> bool:
        self._read_all()
        return super().__eq__(other)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    def _read_all(self) -> None:
        self.read.update(super().keys())


def check_read(trainer: type, given: set[str], read: set[str]) -> None:
    """Raise where a trainer's `setup` has passed over a hyper-parameter that its code never mentions."""
    unread = given - read
    if not unread:
        return
    mentioned, any_other = _mentioned_names(trainer, given)
    if (unread := unread - mentioned) and not any_other:
        raise TrainerError(
            f"setup() of {trainer.__name__} never looks at {listed(unread)}; it read "
            f"{listed(given & read) or 'nothing'}. Trials that differ there alone would all be the same: put "
            f"it into force in setup(), read it in train() by self.hp({min(unread)!r}), or take it out of "
            "the space"
        )


def _mentioned_names(trainer: type, given: set[str]) -> tuple[set[str], bool]:
    """Return every string in the user's code: the trainer's methods, and the functions that they refer to.

    A name that stands there may be read on another occasion: momentum, where the optimizer is not Adam. Also
    return whether any other of those `given` may be, since `hp` is called with a name that is computed.
    """
    names: set[str] = set()
    any_other = False
    waiting = [value for name in dir(trainer) for value in _in_use(trainer, name)]
    seen: set[int] = set()
    while waiting:
        function = _function_of(waiting.pop())
        if function is not None and id(function) not in seen:
            seen.add(id(function))
            strings, references = _contents(function.__code__)
            names |= strings
            any_other = any_other or _computes_names(function.__code__, given)
            waiting += [function.__globals__[name] for name in references if name in function.__globals__]
    return names, any_other


def _computes_names(code: CodeType, given: set[str]) -> bool:
    """Return whether code takes a method `hp`, and then anything but the name of a hyper-parameter."""
    for one, after in pairwise(dis.get_instructions(code)):
        is_name = after.opname == "LOAD_CONST" and after.argval in given
        if one.opname in ("LOAD_METHOD", "LOAD_ATTR") and one.argval == "hp" and not is_name:
            return True
    return any(_computes_names(each, given) for each in code.co_consts if isinstance(each, CodeType))


def _in_use(trainer: type, name: str) -> Iterator[object]:
    """Yield what a trainer has under a name, and what that stands in for as far as ``super()`` reaches."""
    for cls in trainer.__mro__:
        if name in vars(cls):
            value = vars(cls)[name]
            yield value
            function = _function_of(value)
            if function is None or "super" not in function.__code__.co_names:
                return


def _function_of(value: object) -> FunctionType | None:
    function = inspect.unwrap(getattr(value, "__func__", value)) if callable(value) else None
    is_users = isinstance(function, FunctionType) and function.__module__.partition(".")[0] != "hippotune"
    return function if is_users else None


def _contents(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the strings and the names in code, and in the functions within it."""
    strings: set[str] = set()
    names = set(code.co_names)
    waiting = list(code.co_consts)
    while waiting:
        constant = waiting.pop()
        if isinstance(constant, str):
            strings.add(constant)
        elif isinstance(constant, (tuple, frozenset)):
            waiting += constant
        elif isinstance(constant, CodeType):
            names.update(constant.co_names)
            waiting += constant.co_consts
    return strings, names
