"""A graph of objects, pickled with everything that it holds, and made again from that.

Identity, aliases, views, strides and gradients are kept: an object that is held twice is one object again.
The memory of tensors is not in the pickle but beside it, as copies in main memory. What every process has
already (the trainer's class, what `prepare` left) is saved as a reference.

What cannot be saved raises `Unsavable`, which names it.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
import types
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np

from hippotune.gc_pause import gc_paused
from hippotune.trainers.state import arrays, functions, others, walk
from hippotune.trainers.state.constants import (
    CONSTANT,
    Constants,
    constant_value,
    constants_of,
    holds_only_attributes,
)
from hippotune.trainers.state.refusals import Refused, Unsavable, reason_of

if TYPE_CHECKING:
    import torch

    from hippotune.trainers.state.memory import Memory

Reference = tuple[str, Any]
"""What stands for an object that is not in the pickle: its kind, and its name or number."""

OWN = "own"
_MEMORY = "memory"
_NOTHING = object()
_MOST_OBJECTS = 10_000
_LONGEST_PATH = 160


@dataclass(frozen=True)
class Pickled:
    """A pickled graph, and the memory that its tensors are views of: copies, in main memory."""

    graph: bytes
    memory: Memory | None


@dataclass(frozen=True)
class Known:
    """Objects that are saved by name, because every process that loads the state has them.

    `names` has them by id; others keep them alive. `tensors` has those of them that are tensors by their
    storage, and `arrays` are those that are arrays: other objects may be views of their memory. `attributes`
    are those of the root that every process has by itself.
    """

    names: Mapping[int, Reference] = field(default_factory=dict)
    tensors: Mapping[int, torch.Tensor] = field(default_factory=dict)
    arrays: tuple[arrays.Array, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def is_own(self, name: str, value: Any) -> bool:
        """Return whether an attribute of the root still holds what it holds in every process by itself.

        Of plain values, one that is equal counts as the same: whether Python makes one object of them says
        nothing about the state.
        """
        own = self.attributes.get(name, _NOTHING)
        kind = type(own)
        if own is value or kind not in walk.ATOMS or type(value) is not kind:
            return own is value
        return bool(own == value if kind in (str, bytes) else repr(own) == repr(value))

    def marked(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return the root's attributes to pickle, where `Own` stands for what a process has by itself."""
        if not self.attributes:
            return attributes
        return {
            name: Own(name, value) if id(value) not in self.names and self.is_own(name, value) else value
            for name, value in attributes.items()
        }


class Own:
    """Stands for an attribute that every process has by itself; `value` is for a process that has none."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value


def dumps(value: Any, known: Known, root: Any) -> Pickled:
    """Pickle a graph. What cannot be pickled is named by its way from `root`."""
    owners = known.arrays
    while True:
        file = io.BytesIO()
        pickler = _Pickler(file, known, owners, constants_of(type(root)))
        try:
            with gc_paused():
                pickler.dump(value)
        except _SharedMemory as shared:  # once more, now that it is known
            owners = (*owners, shared.owner)
        except Refused as refused:
            raise Unsavable(_named(refused.subject, str(refused), root)) from None
        except Exception as error:
            if isinstance(error, RecursionError) or isinstance(error.__context__, RecursionError):
                ((deepest, _),) = deque(walk.objects(root, most=_MOST_OBJECTS), maxlen=1)
                raise Unsavable(
                    f"{_shortened(deepest)} is nested too deeply to be saved: pickle follows each reference "
                    "from within the one before. Keep long chains of objects in a list"
                ) from None
            reason = (
                f"cannot be saved: {type(error).__name__}: {error}. Make it in prepare(), where it is kept "
                "but not saved, or in every train(), or define state_dict() and load_state_dict()"
            )
            subject = pickler.last
            raise Unsavable(_named(subject, reason_of(subject) or reason, root)) from error
        else:
            return Pickled(file.getvalue(), pickler.copied_memory())
        finally:
            pickler.release()


def loads(pickled: Pickled, resolve: Callable[[Reference], Any]) -> Any:
    """Make a graph again; `resolve` returns what a reference stands for."""
    unpickler = _Unpickler(io.BytesIO(pickled.graph))
    with gc_paused():
        unpickler.memory = [] if pickled.memory is None else pickled.memory.storages()
        unpickler.resolve = resolve
        return unpickler.load()


def _named(subject: Any, reason: str, root: Any) -> str:
    path = walk.find(root, lambda value: value is subject) or "something that self holds"
    return f"{_shortened(path)} ({type(subject).__name__}) {reason}"


def _shortened(path: str) -> str:
    half = _LONGEST_PATH // 2
    return path if len(path) <= _LONGEST_PATH else f"{path[:half]} … {path[-half:]}"


class _Unpickler(pickle.Unpickler):
    memory: list[torch.UntypedStorage]
    resolve: Callable[[Reference], Any]

    def persistent_load(self, reference: Reference) -> Any:
        kind, name = reference
        if kind == CONSTANT:
            return constant_value(*name)
        return self.memory[name] if kind == _MEMORY else self.resolve(reference)


class _SharedMemory(Exception):
    """A tensor turns out to be a view of the memory of an array."""

    def __init__(self, owner: arrays.Array) -> None:
        super().__init__()
        self.owner = owner


class _Copy:
    """Stands for the copy of a storage."""

    def __init__(self, number: int) -> None:
        self.number = number


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles as cloudpickle does, except for what the modules of this folder know better."""

    def __init__(
        self, file: io.BytesIO, known: Known, owners: tuple[arrays.Array, ...], constants: Constants
    ) -> None:
        self.dispatch_table = {**copyreg.dispatch_table, **cloudpickle.Pickler._dispatch_table}  # one look-up
        super().__init__(file, protocol=5)
        self._memory: list[torch.UntypedStorage] = []
        self.last: Any = None
        self._names = known.names
        self._constants = constants
        self._values = constants.values
        self._tensors = known.tensors
        self._owners = {arrays.address(owner): owner for owner in owners}
        self._storages: dict[int, Any] = {}  # one object for each, so that pickle knows it again
        self._layouts: dict[Any, Any] = {}
        self._foreign: list[tuple[int, int]] = []  # the memory of storages that torch did not allocate
        self._arrays: dict[int, arrays.Array] = {}  # those that own their memory, by address
        self._reducers: dict[type, Callable[[Any], Any] | None] = {}

    def persistent_id(self, value: Any) -> Reference | None:
        """Return what stands for an object that is not in the pickle."""
        kind = type(value)
        if kind is _Copy:
            return _MEMORY, value.number
        if kind is Own:
            return OWN, (value.name, value.value)
        return self._names.get(id(value)) or self._values.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        """Return how an object is made again, where pickle's own way would lose something."""
        self.last = value
        kind = type(value)
        try:
            reducer = self._reducers[kind]
        except KeyError:
            reducer = self._reducers[kind] = self._reducer_for(kind)
        reduced = None if reducer is None else reducer(value)
        return NotImplemented if reduced is None else reduced

    def _reducer_for(self, kind: type) -> Callable[[Any], Any] | None:
        if issubclass(kind, type):
            return self._reduce_class
        if issubclass(kind, np.ndarray):
            return self._reduce_array
        if kind is types.FunctionType:
            return self._reduce_function
        if "torch" in sys.modules and (reducer := self._reducer_of_torch(kind)) is not None:
            return reducer
        reducer = others.reducer_for(kind)
        if reducer is not None or kind in self.dispatch_table or not others.is_pickled_by_default(kind):
            return reducer
        plain = kind.__new__ is object.__new__ and holds_only_attributes(kind)
        return self._constants.reduce if plain else None

    def _reducer_of_torch(self, kind: type) -> Callable[[Any], Any] | None:
        import torch

        from hippotune.trainers.state import tensors

        if issubclass(kind, torch.Tensor):
            return lambda tensor: tensors.reduce_tensor(tensor, self._one_storage, self._layouts)
        if issubclass(kind, torch.UntypedStorage):
            return self._reduce_storage
        if issubclass(kind, torch.TypedStorage):
            return lambda typed: tensors.reduce_typed(typed, self._one_storage)
        return tensors.reducer_for(kind)

    def _reduce_class(self, cls: type) -> Any:
        return None if functions.is_found_by_name(cls) else super().reducer_override(cls)

    def _reduce_function(self, function: Any) -> Any:
        if functions.is_found_by_name(function):
            return None
        if "_torchdynamo_orig_callable" in vars(function):
            from hippotune.trainers.state import tensors

            return tensors.reduce_compiled(function)
        return functions.reduce_function(function)

    # Memory that tensors and arrays are views of.

    def _one_storage(self, storage: torch.UntypedStorage) -> Any:
        """Return what stands for a storage, each time the same: for most, the copy of its memory."""
        number = storage._cdata
        one = self._storages.get(number)
        if one is None:
            one = self._storages[number] = storage
            if storage.device.type == "cpu" and storage.resizable() and number not in self._tensors:
                one = self._storages[number] = self._copy_of(storage)
        return one

    def _reduce_storage(self, storage: torch.UntypedStorage) -> Any:
        from hippotune.trainers.state import tensors

        if (one := self._one_storage(storage)) is not storage:
            return tensors.itself, (one,)
        if (tensor := self._tensors.get(storage._cdata)) is not None:
            return tensors.storage_of, (tensor,)
        if (owner := self._owner_of(storage)) is not None:
            offset = storage.data_ptr() - arrays.address(owner)
            return tensors.storage_in_array, (owner, offset, storage.nbytes())
        return tensors.reduce_storage(storage, self._copy_of(storage))

    def _copy_of(self, storage: torch.UntypedStorage) -> _Copy:
        self._memory.append(storage)
        return _Copy(len(self._memory) - 1)

    def release(self) -> None:
        """Release what was pickled: weak references must not find it alive."""
        self.clear_memo()
        self._reducers.clear()  # they hold this object
        self.last = None

    def copied_memory(self) -> Memory | None:
        """Copy the memory of all storages that were met."""
        if not self._memory:
            return None
        from hippotune.trainers.state.memory import Memory

        return Memory.copied(self._memory)

    def _owner_of(self, storage: torch.UntypedStorage) -> arrays.Array | None:
        """Return the array that owns a storage's memory, where torch has not allocated it."""
        if storage.device.type != "cpu" or storage.resizable() or not storage.nbytes():
            return None
        begin, end = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
        if (owner := self._owner_around(begin, end)) is not None:
            return owner
        self._foreign.append((begin, end))
        for start, array in self._arrays.items():
            if start < end and begin < start + array.nbytes:
                raise _SharedMemory(array)
        return None

    def _known_owner_of(self, array: arrays.Array) -> arrays.Array | None:
        """Return a prepared array that an array is a view of a part of."""
        if array.base is None or not self._owners or array.dtype.hasobject:
            return None
        return self._owner_around(*arrays.extent(array))

    def _owner_around(self, begin: int, end: int) -> arrays.Array | None:
        owners = self._owners.items()
        return next((owner for at, owner in owners if at <= begin and end <= at + owner.nbytes), None)

    def _reduce_array(self, array: arrays.Array) -> Any:
        if (owner := self._known_owner_of(array)) is not None:
            return arrays.reduce_view(array, owner)
        reduced = arrays.reduce(array)
        if reduced is not None and array.base is None and array.nbytes:
            start = arrays.address(array)
            self._arrays[start] = array
            if start not in self._owners and any(
                begin < start + array.nbytes and start < end for begin, end in self._foreign
            ):
                raise _SharedMemory(array)
        return reduced
