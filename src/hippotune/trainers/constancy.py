"""What a trainer keeps besides its state: data, tokenizers, settings. It is not saved, so it must not change.

Looking for changes costs a pass over the data, so it is done around the first step of a process alone. That
finds what training changes in every step: a replay buffer, a running average, a counter in an own object.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor

from hippotune.trainers.stateful import is_stateful

# As much of an object as is looked at: well below a second.
_MOST_BYTES = 256 << 20
_MOST_OBJECTS = 200_000
_ATOMS = frozenset({type(None), bool, int, float, str, bytes})


def fingerprint(value: object, owner: object = None, arrays: bool = True) -> str | None:
    """Return what changes when a value changes; None where it cannot be looked into.

    Tensors are told apart by torch's count of their changes; objects that are saved, and the `owner` of it
    all, are not looked into. Without `arrays`, contents of arrays do not count.
    """
    sink = _Digest()
    try:
        _Reader(sink, owner, arrays).dump(value)
    except _Enough:
        pass
    except Exception:  # a lock, an open file, an object that refuses: there is no way to look into it
        return None
    return sink.digest.hexdigest()


class _Enough(Exception):
    """The limit is reached."""


class _Digest(io.RawIOBase):
    """A file that keeps a digest of what is written to it."""

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        self._room = _MOST_BYTES

    def write(self, data: Any) -> int:
        """Add to the digest."""
        view = memoryview(data).cast("B")
        self.digest.update(view[: self._room])
        self._room -= len(view)
        if self._room <= 0:
            raise _Enough
        return len(view)


class _Reader(pickle.Pickler):
    """Goes through an object as pickle does; what has an identity is written as that."""

    def __init__(self, sink: _Digest, owner: object, arrays: bool) -> None:
        super().__init__(sink, protocol=5)
        self._sink = sink
        self._owner = owner
        self._arrays = arrays
        self._objects = 0

    def persistent_id(self, value: Any) -> object:
        """Return what stands for a value, or None where pickle shall go through it."""
        self._objects += 1
        if self._objects > _MOST_OBJECTS:
            raise _Enough
        if type(value) in _ATOMS:
            return None
        if isinstance(value, Tensor):
            return ("tensor", value.data_ptr(), value._version)
        if type(value) is np.ndarray and value.dtype != object:
            if self._arrays:
                self._sink.write(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
            return ("array", value.shape, str(value.dtype), None if self._arrays else id(value))
        if isinstance(value, (type, ModuleType, FunctionType, BuiltinFunctionType)):
            return ("code", id(value))
        if value is self._owner or is_stateful(value):
            return ("kept elsewhere", id(value))
        return None
