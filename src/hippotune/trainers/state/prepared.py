"""What `prepare` leaves on a trainer: once in a process, on every trainer object, in no checkpoint.

It is read-only. In a checkpoint it is a reference by name, also where something else on the trainer refers to
it, or to memory below a view of it. Changes are looked for after the first step, and then as often as that
takes at most a hundredth of the time.
"""

from __future__ import annotations

import inspect
import itertools
import operator
import pickle
import sys
import time
import types
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hippotune.errors import CheckpointError, TrainerError
from hippotune.trainers.state import walk
from hippotune.trainers.state.opening import random_state
from hippotune.trainers.state.pickling import Known, Reference

# Beyond as many objects, an item of a large list that something else refers to is saved by itself.
_MOST_OBJECTS = 1_000_000
_SHARE = 0.01

PREPARED = "prepared"


class Prepared:
    """The attributes that `prepare` left, and everything that they hold, by name."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        self.attributes = attributes
        self._objects: dict[str, Any] = {}
        if attributes:
            self._objects = {
                path.removeprefix("self"): value
                for path, value in walk.objects(
                    _Holder(attributes), most=_MOST_OBJECTS, reduced=False, exact=True
                )
                if not isinstance(value, _Holder)
            }
        self.known = self._known()
        self._marks = dict(self._look())
        self._looked = self._cost = 0.0

    def resolve(self, name: str) -> Any:
        """Return what a reference in a checkpoint stands for."""
        try:
            return self._objects[name]
        except KeyError:
            raise CheckpointError(
                f"the checkpoint refers to self{name}, which prepare() leaves nothing at in this process: "
                "prepare() has to do the same in every process"
            ) from None

    def check(self) -> None:
        """Raise where something has changed. Looks only now and then; see the module's docstring."""
        if not self.attributes:
            return
        now = time.perf_counter()
        if self._looked and now - self._looked < self._cost / _SHARE:
            return
        for name, now_marked in self._look():
            if _has_changed(self._marks.get(name), now_marked):
                raise TrainerError(
                    f"self{name} was left by prepare() and has changed since: what prepare() leaves is "
                    "shared by all trials of a process and is not saved, so training must not change it. "
                    "Make it in build(), or change a copy of it"
                )
        self._looked = time.perf_counter()
        self._cost = self._looked - now

    def _known(self) -> Known:
        names: dict[int, Reference] = {}
        tensors: dict[int, Any] = {}
        owners = []
        for name, value in self._objects.items():
            if not _is_shared_anyway(value):
                names[id(value)] = PREPARED, name
            if isinstance(value, np.ndarray) and value.nbytes and not value.dtype.hasobject:
                owners.append(value)
            elif walk.is_tensor(value) and value.layout is sys.modules["torch"].strided:
                tensors[value.untyped_storage()._cdata] = value
        contiguous = tuple(array for array in owners if array.flags.c_contiguous)
        return Known(names, tensors, contiguous)

    def _look(self) -> Iterator[tuple[str, Any]]:
        """Yield what changes when something changes, by name."""
        for name, value in self._objects.items():
            yield name, mark(value)


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
    if isinstance(value, (list, tuple, dict, set, frozenset, deque)):
        return tuple((text, _atom(child)) for text, child in walk.children(value, reduced=False))
    return {text: _atom(child) for text, child in walk.attributes(value) if text != ".training"}


def _has_changed(before: Any, after: Any) -> bool:
    """Return whether a mark has changed. An object may add attributes: what it finds out when it is asked."""
    if isinstance(before, dict) and isinstance(after, dict):
        both = ((value, after[name]) if name in after else (value, ...) for name, value in before.items())
        return any(old is not new and old != new for old, new in both)  # NaN is the same as itself
    return bool(before != after)


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
