"""What `prepare` leaves on a trainer: once in a process, on every trainer object, in no checkpoint.

It is read-only. In a checkpoint it is a reference by name, also where something else on the trainer refers to
it, or to memory below a view of it. An attribute that still holds what `prepare` left there is the loading
process's own after a load, plain values too. Changes are looked for at the pace of
`hippotune.trainers.state.pace`, and those of settings too.
"""

from __future__ import annotations

import inspect
import itertools
import operator
import pickle
import sys
import types
import zlib
from collections import deque
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from hippotune.errors import CheckpointError, TrainerError
from hippotune.identity.arrays import LARGE
from hippotune.identity.ownership import is_users
from hippotune.trainers.state import walk
from hippotune.trainers.state.opening import random_state
from hippotune.trainers.state.pace import Pace
from hippotune.trainers.state.pickling import Known, Reference

# Beyond as many objects, an item of a large list that something else refers to is saved by itself.
_MOST_OBJECTS = 1_000_000
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)

PREPARED = "prepared"


class Shared:
    """Attributes that all trials of a process share, and everything that they hold, by name.

    An object may find out something when it is asked: an attribute that was not there is watched from then
    on, with what containers in it hold. One that only the user's own code can have added has changed the
    object: it has a public name, the class is of the user's (`home` is the trainer's module), and has nothing
    under the name that computes it.
    """

    def __init__(self, attributes: dict[str, Any], home: str, origin: str, advice: str) -> None:
        self.objects: dict[str, Any] = {}
        if attributes:
            self.objects = {
                path.removeprefix("self"): value
                for path, value in walk.objects(
                    _Holder(attributes), most=_MOST_OBJECTS, reduced=False, exact=True
                )
                if not isinstance(value, _Holder)
            }
        self._home = home
        self._origin, self._advice = origin, advice
        self._watched = dict(self.objects)
        self._marks = {name: mark(value) for name, value in self._watched.items()}
        self._pace, self._pace_of_small = Pace(), Pace()

    def check(self, urgent: bool) -> None:
        """Raise where something has changed. Looks only at its pace, at large arrays less often."""
        if not self._watched:
            return
        if self._pace.is_due(urgent):
            with self._pace.look():
                self._compare(list(self._watched.items()))
        elif urgent and self._pace_of_small.is_due(urgent):
            with self._pace_of_small.look():
                self._compare([item for item in self._watched.items() if not _is_large(item[1])])

    def _compare(self, watched: list[tuple[str, Any]]) -> None:
        for name, value in watched:
            before, now = self._marks[name], mark(value)
            if self._has_changed(value, before, now):
                raise TrainerError(
                    f"self{name} was {self._origin} and has changed since: all trials of a process share "
                    f"it, so training must not change it. {self._advice}"
                )
            if isinstance(now, dict) and len(now) > len(before):
                self._marks[name] = now
                self._watch_too(name, value, now.keys() - before.keys())

    def _has_changed(self, value: Any, before: Any, now: Any) -> bool:
        if not isinstance(before, dict) or not isinstance(now, dict):
            return bool(before != now)
        both = ((old, now[name]) if name in now else (old, ...) for name, old in before.items())
        return any(old is not new and old != new for old, new in both) or any(  # NaN is the same as itself
            self._is_added_by_user(value, text.removeprefix(".")) for text in now.keys() - before.keys()
        )

    def _is_added_by_user(self, value: Any, name: str) -> bool:
        cls = type(value)
        if name.startswith("_") or not is_users(cls.__module__, self._home):
            return False
        computes = inspect.getattr_static(cls, name, None)
        return not hasattr(type(computes), "__get__") or isinstance(computes, types.FunctionType)

    def _watch_too(self, name: str, value: Any, added: Set[str]) -> None:
        for text, child in list(walk.attributes(value)):
            if text in added and type(child) not in walk.ATOMS:
                for path, each in walk.objects(child, name + text, _MOST_OBJECTS, False, True, _is_container):
                    self._watched.setdefault(path, each)
                    self._marks.setdefault(path, mark(each))


class Prepared:
    """The attributes that `prepare` left, and everything that they hold, by name."""

    def __init__(self, attributes: dict[str, Any], home: str = "") -> None:
        self.attributes = attributes
        self._shared = Shared(
            attributes, home, "left by prepare()", "Make it in build(), or change a copy of it"
        )
        self.known = self._known()

    def resolve(self, name: str) -> Any:
        """Return what a reference in a checkpoint stands for."""
        try:
            return self._shared.objects[name]
        except KeyError:
            raise CheckpointError(
                f"the checkpoint refers to self{name}, which prepare() leaves nothing at in this process: "
                "prepare() has to do the same in every process"
            ) from None

    def check(self, urgent: bool) -> None:
        """Raise where something has changed. Looks only at its pace."""
        self._shared.check(urgent)

    def _known(self) -> Known:
        names: dict[int, Reference] = {}
        tensors: dict[int, Any] = {}
        owners = []
        for name, value in self._shared.objects.items():
            if not _is_shared_anyway(value):
                names[id(value)] = PREPARED, name
            if isinstance(value, np.ndarray) and value.nbytes and not value.dtype.hasobject:
                owners.append(value)
            elif walk.is_tensor(value) and value.layout is sys.modules["torch"].strided:
                tensors[value.untyped_storage()._cdata] = value
        contiguous = tuple(array for array in owners if array.flags.c_contiguous)
        return Known(names, tensors, contiguous, self.attributes)


@dataclass(frozen=True)
class NotPrepared:
    """Stands for something that `prepare` left, where it did not run."""

    name: str


class _Holder:
    def __init__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)


def mark(value: Any) -> Any:
    """Return what changes when an object changes by itself; what it holds has marks of its own."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        content = value if value.flags.c_contiguous else np.ascontiguousarray(value)
        return value.shape, str(value.dtype), zlib.crc32(content.reshape(-1).view(np.uint8).data)
    if walk.is_tensor(value):
        return _mark_of_tensor(value)
    if isinstance(value, (bytearray, memoryview)):
        return zlib.crc32(value)
    if (state := random_state(value)) is not None:
        return zlib.crc32(pickle.dumps(state))
    if issubclass(type(value), Iterator) and (place := _place(value)) is not None:
        return place
    if _is_container(value):
        return tuple((text, _atom(child)) for text, child in walk.children(value, reduced=False))
    return {text: _atom(child) for text, child in walk.attributes(value) if text != ".training"}


def _is_large(value: Any) -> bool:
    if walk.is_tensor(value):
        return bool(value.numel() * value.element_size() >= LARGE)
    return isinstance(value, np.ndarray) and value.nbytes >= LARGE


def _is_container(value: Any) -> bool:
    return isinstance(value, _CONTAINERS)


def _is_shared_anyway(value: Any) -> bool:
    """Return whether every process has an object by itself: classes, functions with a name, empty tuples."""
    return (
        (isinstance(value, (tuple, frozenset)) and not value)
        or isinstance(value, (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType))
        or walk.is_torch(value, "dtype")
        or walk.is_torch(value, "device")
    )


def _mark_of_tensor(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        return tuple(tensor.shape), tensor._version
    with torch.no_grad():
        flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        return tuple(tensor.shape), zlib.crc32(flat.view(torch.uint8).numpy())


def _place(iterator: Any) -> Any:
    """Return what changes when something is taken from an iterator of Python's own."""
    if isinstance(iterator, types.GeneratorType):
        held = [] if iterator.gi_frame is None else list(iterator.gi_frame.f_locals.values())
        return inspect.getgeneratorstate(iterator), tuple(map(_atom, held))
    if isinstance(iterator, itertools.count):
        return repr(iterator)
    return operator.length_hint(iterator, -1) if type(iterator).__module__ == "builtins" else None


def _atom(child: Any) -> Any:
    return child if type(child) in walk.ATOMS else id(child)
